/* The device barrier by one counter that only grows, whole and split, as CUDA's cooperative groups count: nobody leaves
   a barrier before all have arrived, everybody leaves, and the words wrap and are used again. When a group reaches the
   spin limit, all leave, barriers return false from then on, and the host is told. The check of arrivals finds nothing
   in a right launch. With SLOTS it counts phases, as where a leader keeps them in registers.

   Mirrors: cl_templates/device_barrier/counter.mako df1cc88d506a
   Mirrors: cl_templates/device_barrier/counters.mako 3aaa724a9406
   Mirrors: cl_templates/device_barrier/wait.mako 3158ac758b42
   Mirrors: cl_templates/device_barrier/split.mako 32525529120a
   Mirrors: cl_templates/backend/barrier.mako bed45531e78e
   Mirrors: cl_templates/grid/state.mako af2075842bd4
   Run: GROUPS=3
   Run: GROUPS=3 LIMITED=1 SKIPS
   Run: GROUPS=3 LIMITED=3 GOES_ON
   Run: GROUPS=3 STRAY
   Run: GROUPS=3 SPLIT
   Run: GROUPS=3 SPLIT LIMITED=2 ROUNDS=2 SKIPS
   Run: GROUPS=3 MIXED LIMITED=2
   Run: GROUPS=3 SLOTS LIMITED=1
   Run: GROUPS=3 SLOTS SPLIT
   Liveness: GROUPS=3 POLLS
   Liveness: GROUPS=3 POLLS SPLIT TESTS
   Bug: COUNTS_NONE GROUPS=3 LIMITED=1
   Bug: EXACT GROUPS=3
   Bug: STRICT GROUPS=3
   Bug: FORGETS_REPORT GROUPS=3 LIMITED=3
   Bug: IGNORES_ABORT GROUPS=3 LIMITED=1
   Bug: KEEPS_ABORT GROUPS=3 LIMITED=1
   Bug: KEEPS_COUNTER GROUPS=3
   Bug: KEEPS_SPLIT GROUPS=3 SPLIT
   Bug: TELLS_TWICE GROUPS=3 LIMITED=1
*/
#include "device_barrier.h"

#define OWN_VARIABLES
#define OWN_END
#define OWN_PROCESSES

#ifdef SLOTS
byte counters[4];

/* counter.mako, portbar_missing. */
#define MISSING_OF(slot, form, phase) MISSING(COUNTER(0, form), (phase) * num_groups)
inline missing_counters(form, phase)
{
    lacking = MISSING_OF(0, form, phase)
}

/* counters.mako, arrival. */
inline arrive_counters(form, phase)
{
    atomic {
        lacking = WORD(phase * num_groups - COUNTER(0, form) - 1);
        COUNTER(0, form) = WORD(COUNTER(0, form) + 1)
    }
}

#include "device_barrier_slots.h"
#else
byte counter;              /* PORTBAR_STATE_COUNTER */
byte split_counter;        /* PORTBAR_STATE_SPLIT */

/* counter.mako, prepare, and state.mako, portbar_state_prepare. */
inline prepare()
{
#ifndef BUG_KEEPS_COUNTER
    counter = 0;
#endif
#ifndef BUG_KEEPS_SPLIT
    split_counter = 0
#endif
}

/* One arrival; what the counter lacks then, checked. */
inline arrive(word, goal)
{
    atomic { lacking = WORD(goal - word - 1); word = WORD(word + 1) };
#ifdef BUG_STRICT
    check_arrival(lacking, num_groups - 1)
#else
    check_arrival(lacking, num_groups)
#endif
}

/* counter.mako, portbar_device_barrier. */
inline whole_barrier()
{
    if
    :: ok ->
        target = WORD(target + num_groups);
        arrive(counter, target);
        if
        :: lacking == 0
        :: else -> lacking = 0; wait_counted(counter, target, counter, target)
        fi
    :: else
    fi
}

/* split.mako, portbar_device_barrier_arrive where it does not count in slots. */
inline arrive_split()
{
    split = WORD(split + num_groups);
    arrive(split_counter, split);
    lacking = 0
}

/* split.mako, portbar_device_barrier_wait. */
inline wait_split()
{
    wait_counted(split_counter, split, split_counter, split)
}

/* split.mako, portbar_split_missing. */
inline missing_split()
{
    lacking = MISSING(split_counter, split)
}
#endif

#include "device_barrier_launches.h"
