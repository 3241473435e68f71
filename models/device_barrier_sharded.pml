/* The device barrier by two counters that only grow: a work-group arrives at one of them and waits for both. Promises as
   those of device_barrier_counter. On NVIDIA the split form of `tree` counts so, too.

   Mirrors: cl_templates/device_barrier/sharded.mako ad974c63cb99
   Mirrors: cl_templates/device_barrier/counters.mako 06d819065e50
   Mirrors: cl_templates/device_barrier/split.mako ffbd4d8ebb95
   Mirrors: cl_templates/backend/barrier.mako 56397b84e653
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Run: GROUPS=3 ROUNDS=5
   Run: GROUPS=4
   Run: GROUPS=3 LIMITED=1 SKIPS
   Run: GROUPS=3 SPLIT LIMITED=1 ROUNDS=2 LAUNCHES=1
   Nightly: GROUPS=4 ROUNDS=2 LAUNCHES=1 LIMITED=1 SKIPS
   Liveness: GROUPS=3 POLLS
   Bug: NARROW GROUPS=3
   Bug: WAITS_FOR_ONE GROUPS=3
   Bug: HALVES GROUPS=3
   Bug: EXACT GROUPS=3
   Bug: KEEPS_COUNTERS GROUPS=3
*/
#include "device_barrier.h"

byte counters[4];

#define OWN_VARIABLES
#define OWN_END
#define OWN_PROCESSES

/* sharded.mako, portbar_shard_members. */
#ifdef BUG_HALVES
#define MEMBERS(shard) (num_groups / 2)
#else
#define MEMBERS(shard) (num_groups / 2 + ((shard) < num_groups % 2 -> 1 : 0))
#endif
#ifdef BUG_NARROW
#define COUNTED(shard) (MEMBERS(shard) - 1)
#else
#define COUNTED(shard) MEMBERS(shard)
#endif
#ifndef BUG_WAITS_FOR_ONE
#define WAITS_FOR_BOTH
#endif

/* sharded.mako, portbar_shard_missing and portbar_missing. */
#define MISSING_OF(shard, form, phase) MISSING(COUNTER(shard, form), (phase) * MEMBERS(shard))
inline missing_counters(form, phase)
{
    lacking = MISSING_OF(0, form, phase);
    lacking = lacking + MISSING_OF(1, form, phase)
}

/* sharded.mako, portbar_arrive_counters. */
inline arrive_counters(form, phase)
{
    atomic {
        lacking = WORD(phase * MEMBERS(me & 1) - COUNTER(me & 1, form) - 1);
        COUNTER(me & 1, form) = WORD(COUNTER(me & 1, form) + 1)
    };
    check_arrival(lacking, COUNTED(me & 1));
    lacking = 1
}

#include "device_barrier_slots.h"
#include "device_barrier_launches.h"
