/* The device barrier by one counter for each TREE_FAN groups and a root, at which the last group of a node arrives. All
   poll the root; with RELEASE_FLAGS, as on NVIDIA, the last group of all raises flags, and each group polls one.
   Promises as those of device_barrier_counter, whose split form it has, too.

   Mirrors: cl_templates/device_barrier/tree.mako 646a2b61aa5c
   Mirrors: cl_templates/device_barrier/wait.mako 37c89d0ec73a
   Mirrors: cl_templates/backend/barrier.mako 56397b84e653
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Run: GROUPS=3 ROUNDS=5
   Run: GROUPS=3 ROUNDS=5 RELEASE_FLAGS=2
   Run: GROUPS=4
   Run: GROUPS=3 ROUNDS=5 LAUNCHES=1 LIMITED=1 SKIPS
   Run: GROUPS=3 ROUNDS=5 LAUNCHES=1 LIMITED=1 RELEASE_FLAGS=2
   Nightly: GROUPS=5 ROUNDS=2
   Nightly: GROUPS=4 ROUNDS=2 LAUNCHES=1 LIMITED=1 SKIPS
   Nightly: GROUPS=4 ROUNDS=2 LAUNCHES=1 LIMITED=1 RELEASE_FLAGS=2
   Liveness: GROUPS=3 POLLS
   Liveness: GROUPS=3 POLLS RELEASE_FLAGS=2
   Bug: ROOT_AT_ONCE GROUPS=3
   Bug: ONE_FLAG GROUPS=3 RELEASE_FLAGS=2
   Bug: KEEPS_NODES GROUPS=3
   Bug: KEEPS_FLAGS GROUPS=3 RELEASE_FLAGS=2
   Bug: NARROW_ROOT GROUPS=3
   Bug: EVEN_NODES GROUPS=3
   Bug: COUNTS_NONE GROUPS=3 LIMITED=1
*/
#define TREE_FAN 2
#include "device_barrier.h"

byte root;                 /* PORTBAR_STATE_COUNTER */
byte node[3];              /* PORTBAR_STATE_NODES */
#ifdef RELEASE_FLAGS
byte released[RELEASE_FLAGS];
#define POLLED_WORD released[me % RELEASE_FLAGS]
#else
#define POLLED_WORD root
#endif

#define OWN_VARIABLES byte members; bit last;
#define OWN_END members = 0;
#define OWN_PROCESSES

#define NODES ((num_groups + TREE_FAN - 1) / TREE_FAN)
#define INDEX (me / TREE_FAN)
#ifdef BUG_EVEN_NODES
#define MEMBERS(index) TREE_FAN
#else
#define MEMBERS(index) MIN(TREE_FAN, num_groups - (index) * TREE_FAN)
#endif
#ifdef BUG_NARROW_ROOT
#define ROOT_MEMBERS (NODES - 1)
#else
#define ROOT_MEMBERS NODES
#endif

/* tree.mako, prepare. */
inline prepare()
{
    root = 0;
#ifndef BUG_KEEPS_NODES
    node[0] = 0;
    node[1] = 0;
    node[2] = 0;
#endif
#if defined(RELEASE_FLAGS) && !defined(BUG_KEEPS_FLAGS)
    released[0] = 0;
    released[1] = 0
#endif
}

/* Groups that a node knows to have arrived, in tree.mako, portbar_wait_root. `target` is the phase. */
#define ROOT_TARGET WORD(target * NODES)
#define BEYOND(index) WORD(node[index] - target * MEMBERS(index))
#ifdef BUG_COUNTS_NONE
#define ARRIVED(index) (MEMBERS(index) - MIN(WORD(0 - BEYOND(index)), MEMBERS(index)))
#else
#define ARRIVED(index) (BEYOND(index) < MEMBERS(index) -> MEMBERS(index) : MEMBERS(index) - MIN(WORD(0 - BEYOND(index)), MEMBERS(index)))
#endif

/* tree.mako, portbar_wait_root, and wait.mako, portbar_wait_word. */
inline wait_root()
{
    do
    :: REACHED(POLLED_WORD, ROOT_TARGET) -> break
    :: abort_flag -> draining(); ok = 0; break
    :: AT_LIMIT(!REACHED(POLLED_WORD, ROOT_TARGET));
       lacking = ARRIVED(0);
       if :: NODES > 1 -> lacking = lacking + ARRIVED(1) :: else fi;
       if :: NODES > 2 -> lacking = lacking + ARRIVED(2) :: else fi;
       report_timeout(lacking);
       lacking = 0;
       ok = 0;
       break
    POLL_AGAIN
    od
}

/* tree.mako, portbar_device_barrier. */
inline whole_barrier()
{
    if
    :: ok ->
        members = MEMBERS(INDEX);
        target = WORD(target + 1);
        atomic { lacking = WORD(target * members - node[INDEX] - 1); node[INDEX] = WORD(node[INDEX] + 1) };
        check_arrival(lacking, members);
        if
#ifdef BUG_ROOT_AT_ONCE
        :: lacking != members - 1
#else
        :: lacking != 0
#endif
        :: else ->
            atomic { lacking = WORD(ROOT_TARGET - root - 1); root = WORD(root + 1) };
            check_arrival(lacking, ROOT_MEMBERS);
            last = lacking == 0
        fi;
        lacking = 0;
        if
        :: last ->
            last = 0;
#ifdef RELEASE_FLAGS
            released[0] = ROOT_TARGET;
#ifndef BUG_ONE_FLAG
            released[1] = ROOT_TARGET
#endif
#endif
        :: else -> wait_root()
        fi
    :: else
    fi
}

#include "device_barrier_launches.h"
