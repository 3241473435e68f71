/* The barrier of algorithms whose counters only grow, in slots: counters.mako, and split.mako where it counts in slots.
   A model says before how a group arrives (arrive_counters) and what is missing (missing_counters), both of which leave
   a number in `lacking`, and which counters one poll looks at (POLLED of them, each by poll_of). Counters are told apart
   by their slot and by their form, WHOLE_FORM or SPLIT_FORM; phases are counted modulo the words, too. */

/* state.mako, portbar_slots_prepare. */
inline prepare()
{
#ifndef BUG_KEEPS_COUNTERS
    COUNTER(0, WHOLE_FORM) = 0;
    COUNTER(1, WHOLE_FORM) = 0;
#endif
    COUNTER(0, SPLIT_FORM) = 0;
    COUNTER(1, SPLIT_FORM) = 0
}

/* counters.mako, portbar_wait_longer, of one of the counters. The report shows the value of the last poll. */
inline wait_longer(slot, form, phase)
{
    do
#ifdef POLLS
    :: true ->
       missing_counters(form, phase);
       if
       :: lacking == 0 -> break
       :: else -> lacking = 0
       fi
#else
    :: MISSING_OF(slot, form, phase) == 0 -> break
#endif
    :: abort_flag -> draining(); ok = 0; break
    :: AT_LIMIT(true);
       missing_counters(form, phase);
       if
       :: lacking == 0 -> gave_up--
       :: else ->
          lacking = num_groups - MIN(lacking, num_groups);
          report_timeout(lacking);
          lacking = 0;
          ok = 0
       fi;
       break
    od
}

/* counters.mako, portbar_wait_counters. */
inline wait_counters(form, phase)
{
    wait_longer(0, form, phase);
#ifdef WAITS_FOR_BOTH
    if
    :: ok -> wait_longer(1, form, phase)
    :: else
    fi
#endif
}

/* counters.mako, the barrier. */
inline whole_barrier()
{
    if
    :: ok ->
        target = WORD(target + 1);
        arrive_counters(WHOLE_FORM, target);
        if
        :: lacking == 0
        :: else -> lacking = 0; wait_counters(WHOLE_FORM, target)
        fi
    :: else
    fi
}

/* split.mako, portbar_device_barrier_arrive, _wait, and portbar_split_missing. */
inline arrive_split()
{
    split = WORD(split + 1);
    arrive_counters(SPLIT_FORM, split);
    lacking = 0
}

inline wait_split()
{
    wait_counters(SPLIT_FORM, split)
}

inline missing_split()
{
    missing_counters(SPLIT_FORM, split)
}
