/* The device barrier by two counters that only grow: a work-group arrives at both, first at its own, that of its parity,
   and waits for its own. Promises as those of device_barrier_counter. The check of arrivals allows for groups that are
   late at the second counter, and finds nothing in a right launch. With REDS the two arrivals come in any order and
   their results are unused, as on NVIDIA.

   Mirrors: cl_templates/device_barrier/replicated.mako b50352560162
   Mirrors: cl_templates/device_barrier/counters.mako 06d819065e50
   Mirrors: cl_templates/device_barrier/split.mako ffbd4d8ebb95
   Mirrors: cl_templates/backend/barrier.mako 56397b84e653
   Mirrors: cl_templates/backend/ptx.mako 3431437577b6
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Run: GROUPS=3
   Run: GROUPS=3 REDS
   Run: GROUPS=3 LIMITED=1 SKIPS
   Run: GROUPS=3 SPLIT LIMITED=1 ROUNDS=2 LAUNCHES=1
   Run: GROUPS=4 BITS=4 ROUNDS=2 LAUNCHES=1
   Nightly: GROUPS=4 BITS=4 ROUNDS=5
   Nightly: GROUPS=4 ROUNDS=2 LAUNCHES=1 BITS=4 LIMITED=1 SKIPS
   Liveness: GROUPS=3 POLLS
   Bug: NARROW_OWN GROUPS=3
   Bug: NARROW_LATE GROUPS=3
   Bug: NARROW_AHEAD GROUPS=3
   Bug: ARRIVES_AT_OWN GROUPS=3
   Bug: EXACT GROUPS=3
   Bug: KEEPS_COUNTERS GROUPS=3
*/
#include "device_barrier.h"

byte counters[4];

#define OWN_VARIABLES
#define OWN_END
#define OWN_PROCESSES

/* replicated.mako, portbar_counters_of, and the other groups of the caller's parity. */
#define OWN(form) COUNTER(me & 1, form)
#define OTHER(form) COUNTER(1 - (me & 1), form)
#define OTHERS ((num_groups + 1 - (me & 1)) / 2 - 1)

/* replicated.mako, portbar_missing: of the group's own counter, whatever the slot. */
#define MISSING_OF(slot, form, phase) MISSING(OWN(form), (phase) * num_groups)

inline missing_counters(form, phase)
{
    lacking = MISSING_OF(0, form, phase)
}

#ifdef REDS
/* ptx/barrier.mako, portbar_word_arrive_twice. */
inline arrive_counters(form, phase)
{
    if
    :: OWN(form) = WORD(OWN(form) + 1); OTHER(form) = WORD(OTHER(form) + 1)
    :: OTHER(form) = WORD(OTHER(form) + 1); OWN(form) = WORD(OWN(form) + 1)
    fi;
    lacking = num_groups
}
#else
#ifdef BUG_NARROW_OWN
#define OWN_MEMBERS (num_groups - 1)
#else
#define OWN_MEMBERS num_groups
#endif
#ifdef BUG_NARROW_LATE
#define OTHER_MEMBERS (2 * num_groups + OTHERS - 2)
#else
#define OTHER_MEMBERS (2 * num_groups + OTHERS - 1)
#endif
#ifdef BUG_NARROW_AHEAD
#define AHEAD (num_groups - 1)
#else
#define AHEAD num_groups
#endif

/* replicated.mako, portbar_arrive_counters, and backend/barrier.mako, portbar_arrive_at_both. */
inline arrive_counters(form, phase)
{
    atomic { lacking = WORD(phase * num_groups - OWN(form) - 1); OWN(form) = WORD(OWN(form) + 1) };
    check_arrival(lacking, OWN_MEMBERS);
#ifndef BUG_ARRIVES_AT_OWN
    atomic {
        lacking = WORD(phase * num_groups + AHEAD - OTHER(form) - 2);
        OTHER(form) = WORD(OTHER(form) + 1)
    };
    check_arrival(lacking, OTHER_MEMBERS);
#endif
    lacking = num_groups
}
#endif

#include "device_barrier_slots.h"
#include "device_barrier_launches.h"
