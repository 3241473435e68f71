/* Finding the slots at which barriers are fastest: all work-groups of the first launch that is large enough measure each
   slot together, and group 0 says which are best. Where no wait reaches its limit, all groups of a launch count in the
   same slots, no round of a measurement ends before all have come to it, and later launches measure no more. Where one
   does, groups may count in different slots: no group leaves a barrier early then either, the host gets a report of a
   wait that is too long, and the next launch is right. FORM 1 has one counter, FORM 2 two as `sharded`, FORM 3 as
   `replicated`.

   Which slot is fastest is a choice. A wait has no limit but in launches in which one is reached; it then ends at any
   time, since nothing informs a group that others have given up.

   Mirrors: cl_templates/grid/place.mako 0ae0c0359c92
   Mirrors: cl_templates/grid/grid.mako 08a94aab19cc
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Mirrors: cl_templates/device_barrier/sharded.mako ad974c63cb99
   Mirrors: cl_templates/device_barrier/replicated.mako b50352560162
   Run: FORM=1 GROUPS=3
   Run: FORM=2 GROUPS=3
   Run: FORM=3 GROUPS=3
   Run: FORM=3 GROUPS=3 SLOTS=2 ROUNDS=2
   Run: FORM=1 GROUPS=3 SLOTS=2 LIMITED
   Run: FORM=2 GROUPS=2 LIMITED
   Run: FORM=3 GROUPS=2 LIMITED
   Liveness: FORM=1 GROUPS=2 SLOTS=2 POLLS
   Liveness: FORM=3 GROUPS=2 SLOTS=2 POLLS
   Nightly: FORM=2 GROUPS=3 LIMITED LAUNCHES=2
   Nightly: FORM=2 GROUPS=4
   Nightly: FORM=3 GROUPS=3 SLOTS=2 LIMITED LAUNCHES=2 BARRIERS=1
   Bug: AGREES_ALONE FORM=1 GROUPS=2
   Bug: ANY_GROUP_SAYS FORM=1 GROUPS=2
   Bug: KEEPS_PLACING FORM=1 GROUPS=2 SLOTS=2 LIMITED
   Bug: OVERLAPPING_PAIRS FORM=3 GROUPS=2
   Bug: PREPARES_DEFAULT FORM=1 GROUPS=2
   Bug: COUNTS_FEWER FORM=2 GROUPS=3 SLOTS=2
*/
#ifndef SLOTS
#define SLOTS 4
#endif
#ifndef ROUNDS
#define ROUNDS 1                         /* of each measurement: placing[2] */
#endif
#ifndef BARRIERS
#define BARRIERS 2
#endif
#ifndef LAUNCHES
#define LAUNCHES 3
#endif
#define LEAST 2                          /* placing[0]: smaller launches count in the default */
#define MEASURED 16
#define DEFAULT 4                        /* slots 0 and 1 */
#define FIRST(place) ((place) & 3)
#define SECOND(place) (((place) >> 2) & 3)

byte PLACE;                              /* PORTBAR_STATE_PLACE */
byte placing[SLOTS], whole[SLOTS];       /* PORTBAR_SLOT_PLACING and PORTBAR_SLOT_WHOLE of each slot */
bit abort_flag;

byte num_groups, running, launch;
bit open;                                /* a launch is under way */
bit limited;                             /* a wait has reached its limit in this launch, or may */
bit told;                                /* the host: a barrier returned false */
bit knew;                                /* the slots were measured when the launch began */
byte places[GROUPS], turns[GROUPS], phases[GROUPS];
bit passed[GROUPS];

/* All have come as far as the caller. */
#define ALL_HAVE_COME(counts) \
    d_step { \
        other = 0; \
        do \
        :: other < num_groups -> assert(counts[other] >= counts[me]); other++ \
        :: else -> break \
        od; \
        other = 0 \
    }

/* portbar_place_wait */
#define REACHED(word, target) ((word) >= (target))
#ifdef LIMITED
#define AT_LIMIT :: limited -> reached = 0; break
#else
#define AT_LIMIT
#endif
#ifdef POLLS
#define POLL_AGAIN :: else
#else
#define POLL_AGAIN
#endif
inline place_wait(word, target)
{
    reached = 1;
    do
    :: REACHED(word, target) -> break
    AT_LIMIT
    POLL_AGAIN
    od
}

/* The end of portbar_place: leaves the place in `place`. */
inline agree(best_place)
{
#ifdef BUG_ANY_GROUP_SAYS
    PLACE = best_place;
#else
    if :: me == 0 -> PLACE = best_place :: else fi;
#endif
    place_wait(PLACE, MEASURED);
    if
#ifdef BUG_AGREES_ALONE
    :: reached -> place = best_place
#else
    :: reached -> place = PLACE
#endif
    :: else -> place = DEFAULT
    fi
}

#define ODD (me & 1)
#define ONES ((num_groups + 1) / 2)      /* members of the first shard */
#define OTHERS (num_groups / 2)

/* One round of a pair of slots: place_round of counter.mako, sharded.mako and replicated.mako. */
inline measure()
{
    turns[me]++;
#if FORM == 1
    d_step { before = placing[slot]; placing[slot]++ };
    if
    :: before + 1 != round * num_groups -> place_wait(placing[slot], round * num_groups)
    :: else -> reached = 1
    fi;
    before = 0;
#elif FORM == 2
    /* One loop polls both. Counters grow only, so that one wait after the other ends when both have their arrivals. */
    placing[slot + ODD]++;
#ifdef BUG_COUNTS_FEWER
    place_wait(placing[slot], round * OTHERS);
#else
    place_wait(placing[slot], round * ONES);
#endif
    if :: reached -> place_wait(placing[slot + 1], round * OTHERS) :: else fi;
#else
    if
    :: placing[slot]++; placing[slot + 1]++
    :: placing[slot + 1]++; placing[slot]++
    fi;
    place_wait(placing[slot + ODD], round * num_groups);
#endif
    if :: reached && !limited -> ALL_HAVE_COME(turns) :: else fi
}

#ifdef BUG_OVERLAPPING_PAIRS
#define NEXT_PAIR (slot + 1)
#else
#define NEXT_PAIR (slot + 2)
#endif

inline find_place()
{
    place = PLACE;
    if
    :: place & MEASURED -> skip
    :: !(place & MEASURED) && num_groups < LEAST -> place = DEFAULT
    :: else ->
       assert(!knew);
       reached = 1;
       slot = 0;
       do
       :: slot + 1 < SLOTS && reached ->
          round = 1;
          do
          :: round <= ROUNDS && reached -> measure(); round++
          :: else -> break
          od;
          if :: best = slot :: slot != 0 fi;
          slot = NEXT_PAIR
       :: else -> break
       od;
       round = 0;
       if
       :: !reached -> place = DEFAULT
       :: else -> agree(MEASURED | best | (best + 1) << 2)
       fi;
       d_step { best = 0; slot = 0; reached = 0 }
    fi
}

/* How a group arrives, and when all have come: counter.mako, sharded.mako, replicated.mako. Counters past their goal by
   a launch's groups were overwritten. */
#define UP_TO(word, goal) ((word) >= (goal) && (word) - (goal) < num_groups)
#if FORM == 1
#define ARRIVE whole[FIRST(place)]++
#define COMPLETE UP_TO(whole[FIRST(place)], phases[me] * num_groups)
#elif FORM == 2
#define ARRIVE if :: ODD -> whole[SECOND(place)]++ :: else -> whole[FIRST(place)]++ fi
#define COMPLETE (UP_TO(whole[FIRST(place)], phases[me] * ONES) && UP_TO(whole[SECOND(place)], phases[me] * OTHERS))
#else
#define ARRIVE if :: whole[FIRST(place)]++; whole[SECOND(place)]++ :: whole[SECOND(place)]++; whole[FIRST(place)]++ fi
#define COMPLETE UP_TO(whole[(ODD -> SECOND(place) : FIRST(place))], phases[me] * num_groups)
#endif

proctype group(byte me)
{
    byte place, best, slot, round, before, other;
    bit reached;
end:
    do
    :: open && me < num_groups && !passed[me] ->
        find_place();
        places[me] = place;
        round = 0;
        do
        :: round < BARRIERS ->
           round++;
           phases[me]++;
           ARRIVE;
           if
           :: COMPLETE -> ALL_HAVE_COME(phases)
           :: abort_flag -> told = 1; break
#ifdef LIMITED
           :: limited && !COMPLETE -> abort_flag = 1; told = 1; break
#endif
           fi
        :: else -> break
        od;
        atomic { place = 0; round = 0; passed[me] = 1; running-- }
    od
}

/* The host, and group 0's part of discovery: state.mako, portbar_slots_prepare. */
inline prepare()
{
    if
    :: PLACE & MEASURED -> at = PLACE
    :: else ->
       at = DEFAULT;
#ifndef BUG_KEEPS_PLACING
       for (i : 0 .. SLOTS - 1) { placing[i] = 0 }
#endif
       skip
    fi;
#ifdef BUG_PREPARES_DEFAULT
    at = DEFAULT;
#endif
    whole[FIRST(at)] = 0;
#if FORM != 1
    whole[SECOND(at)] = 0;
#endif
    abort_flag = 0
}

active proctype host()
{
    byte i, at;
    atomic { for (i : 0 .. GROUPS - 1) { run group(i) } }
    do
    :: launch < LAUNCHES ->
       atomic {
           if
           :: num_groups = GROUPS
           :: GROUPS > 1 -> num_groups = GROUPS - 1
           fi;
#ifdef LIMITED
           if :: limited = 1 :: limited = 0 fi;
#endif
           d_step {
               knew = (PLACE & MEASURED) != 0;
               prepare();
               told = 0;
               for (i : 0 .. GROUPS - 1) { places[i] = 0; turns[i] = 0; phases[i] = 0; passed[i] = 0 };
               running = num_groups;
               open = 1
           }
       };
       atomic {
           running == 0 ->
           open = 0;
           if
           :: !limited ->
              assert(!told);
              for (i : 0 .. num_groups - 1) { assert(places[i] == places[0]) };
              assert(num_groups < LEAST || (places[0] & MEASURED))
           :: limited && knew ->
              for (i : 0 .. num_groups - 1) { assert(places[i] == places[0]) }
           :: else
           fi;
           i = 0; at = 0;
           launch++
       }
    :: launch == LAUNCHES -> break
    od
}

#ifdef POLLS
ltl ends { <> (launch == LAUNCHES) }
#endif
