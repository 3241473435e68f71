/* The device barrier by one counter that only grows, whole and split, as CUDA's cooperative groups count: no group
   leaves a barrier before all have arrived, all leave, and the words wrap and are used again. When a group reaches the
   spin limit, all leave, barriers return false from then on, and the host gets a report. The check of arrivals finds
   nothing
   in a right launch. With SLOTS it counts phases, as where a leader keeps them in registers.

   With BUILT_IN the whole barrier is the one of cl_intel_concurrent_dispatch, where all launched groups take part. How it
   works is the driver's; it is one step here, which is what its specification promises: all groups that were launched
   come, then all go on. It has no limit, so the protocol is that a group which has seen false still meets the others.

   Mirrors: cl_templates/device_barrier/counter.mako 1d93af157d99
   Mirrors: cl_templates/device_barrier/intel_device_barrier.mako 3e693c96589b
   Mirrors: cl_templates/device_barrier/counters.mako 06d819065e50
   Mirrors: cl_templates/device_barrier/wait.mako 37c89d0ec73a
   Mirrors: cl_templates/device_barrier/split.mako ffbd4d8ebb95
   Mirrors: cl_templates/backend/barrier.mako 56397b84e653
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Run: GROUPS=3
   Run: GROUPS=3 LIMITED=1 SKIPS
   Run: GROUPS=3 LIMITED=3 GOES_ON
   Run: GROUPS=3 STRAY
   Run: GROUPS=3 SPLIT
   Run: GROUPS=2 SPLIT LIMITED=2 SKIPS
   Run: GROUPS=2 MIXED LIMITED=2
   Run: GROUPS=3 SLOTS LIMITED=1
   Run: GROUPS=3 SLOTS SPLIT
   Run: GROUPS=3 BUILT_IN TURNS LIMITED=3 GOES_ON
   Run: GROUPS=4 BUILT_IN
   Nightly: GROUPS=3 SPLIT LIMITED=2 ROUNDS=2 SKIPS
   Nightly: GROUPS=3 MIXED LIMITED=2
   Liveness: GROUPS=3 POLLS
   Liveness: GROUPS=3 POLLS SPLIT TESTS
   Liveness: GROUPS=3 POLLS BUILT_IN TURNS
   Bug: COUNTS_NONE GROUPS=3 LIMITED=1
   Bug: EXACT GROUPS=3
   Bug: STRICT GROUPS=3
   Bug: FORGETS_REPORT GROUPS=3 LIMITED=3
   Bug: IGNORES_ABORT GROUPS=3 LIMITED=1
   Bug: KEEPS_ABORT GROUPS=3 LIMITED=1
   Bug: KEEPS_COUNTER GROUPS=3
   Bug: KEEPS_SPLIT GROUPS=3 SPLIT
   Bug: TELLS_TWICE GROUPS=3 LIMITED=1
   Bug: LEAVES_AT_FALSE GROUPS=3 BUILT_IN TURNS LIMITED=1 GOES_ON
   Bug: MEETS_WHERE_SOME_TAKE_PART GROUPS=3 BUILT_IN
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

#ifdef BUILT_IN
byte met, gone;            /* groups inside the built-in, and of these that may leave */

inline built_in()
{
    atomic { gone == 0 -> met++; gone = (met == GROUPS -> GROUPS : 0) };
    atomic { gone > 0 -> met--; gone-- }
}

#ifdef BUG_MEETS_WHERE_SOME_TAKE_PART
#define ALL_TAKE_PART true
#else
#define ALL_TAKE_PART (num_groups == GROUPS)
#endif
#define whole_barrier() if :: ALL_TAKE_PART -> MEETS :: else -> counted_barrier() fi
#ifdef BUG_LEAVES_AT_FALSE
#define MEETS if :: ok -> built_in() :: else fi
#else
#define MEETS built_in()
#endif
#else
#define counted_barrier whole_barrier
#endif

/* counter.mako, portbar_device_barrier. */
inline counted_barrier()
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
