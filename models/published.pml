/* Occupancy discovery as Sorensen et al. published it (OOPSLA 2016), under a ticket lock or a spin lock, with patience
   and with limits. Groups that take part get ids that are dense and different, and agree on their number; no group goes
   on before the first one has prepared the state. A launch in which a group with an id gave up says so, and one without
   a fault leaves the lock free. A ticket that was given up stops all who come later: they, and the launches that the
   host has enqueued already, end at their limits and say so.

   Mirrors: cl_templates/discovery/published.mako 17a321e6d3e5
   Mirrors: cl_templates/discovery/ticket.mako 748dc7be43ec
   Mirrors: cl_templates/discovery/spin.mako 02ad681b17c0
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Mirrors: cl_templates/grid/grid.mako 08a94aab19cc
   Run: GROUPS=3 TICKET=1
   Run: GROUPS=3 TICKET=1 LIMITED=1 LAUNCHES=1
   Run: GROUPS=2 TICKET=1 LIMITED=1 LAUNCHES=3
   Run: GROUPS=3 TICKET=1 COMPLETE=1
   Run: GROUPS=3
   Run: GROUPS=3 LIMITED=1 LAUNCHES=1
   Run: GROUPS=2 LIMITED=1 LAUNCHES=3
   Run: GROUPS=4 LAUNCHES=1
   Liveness: GROUPS=2 TICKET=1 LIMITED=1 LAUNCHES=2
   Liveness: GROUPS=2 LIMITED=1 LAUNCHES=2
   Nightly: GROUPS=3 TICKET=1 LIMITED=1
   Nightly: GROUPS=3 LIMITED=1
   Nightly: GROUPS=3 LIMITED=1 LAUNCHES=2 EXPECTED=2
   Nightly: GROUPS=4 TICKET=1 LAUNCHES=2
   Nightly: GROUPS=4 LIMITED=1 LAUNCHES=1
   Nightly: GROUPS=4 LAUNCHES=2
   Bug: LOOKS_BEFORE_IT_LOCKS GROUPS=2
   Bug: DRAWS_A_TICKET_TWICE GROUPS=2 TICKET=1
   Bug: NEVER_UNLOCKS GROUPS=2 TICKET=1
   Bug: NEVER_CLOSES GROUPS=2 TICKET=1
   Bug: LEAVES_POLL_CLOSED GROUPS=2
   Bug: HAS_NO_PATIENCE GROUPS=2
   Bug: OPENS_REPORT_LATE GROUPS=3 LIMITED=1 LAUNCHES=2
   Bug: FORGETS_COUNT GROUPS=2
   Bug: KEEPS_ABORT GROUPS=2 LIMITED=1
   Bug: KEEPS_COUNTER GROUPS=2
   Bug: LOST_LIKE_OTHERS GROUPS=3 LIMITED=1
*/
#include "state.inc"

byte POLL_EPOCH, POLL_COUNT, LOCK_NEXT, LOCK_SERVING, holders;
bool POLL_DONE, LOCK_HELD;
#define HAS_PUBLISHED (POLL_EPOCH == epoch)

/* portbar/launching/state.py: QueueState. */
inline fill_state() { skip }

#ifdef BUG_NEVER_UNLOCKS
#define STEP 0
#else
#define STEP 1
#endif
#ifdef TICKET
/* portbar_discovery_lock and _unlock of ticket.mako; `has` says whether the group holds it. */
inline lock()
{
#ifdef BUG_DRAWS_A_TICKET_TWICE
    old = LOCK_NEXT;
    LOCK_NEXT = (old + 1) & 7;
#else
    atomic { old = LOCK_NEXT; LOCK_NEXT = (LOCK_NEXT + 1) & 7 }
#endif
    if
    :: atomic { LOCK_SERVING == old -> has = true; old = 0; holders++ }
    :: LIMITED -> atomic { has = false; old = 0 }
    fi
}
inline unlock() { atomic { LOCK_SERVING = (LOCK_SERVING + STEP) & 7; has = false; holders-- } }
#define STAYS_USABLE (LOCK_NEXT == LOCK_SERVING)
#else
/* portbar_discovery_lock and _unlock of spin.mako. */
inline lock()
{
    if
#ifdef BUG_LOOKS_BEFORE_IT_LOCKS
    :: !LOCK_HELD -> atomic { LOCK_HELD = true; has = true; holders++ }
#else
    :: atomic { !LOCK_HELD -> LOCK_HELD = true; has = true; holders++ }
#endif
    :: LIMITED -> has = false
    fi
}
inline unlock() { atomic { LOCK_HELD = false; has = false; holders-- } }
#define STAYS_USABLE (!LOCK_HELD)
#endif

/* portbar_discover */
inline discover()
{
    lock();
    if
    :: !has -> id = NO_ID
    :: else ->
        if
        :: POLL_EPOCH != epoch ->
            prepare();
            POLL_COUNT = 0;
#ifndef BUG_LEAVES_POLL_CLOSED
            POLL_DONE = false;
#endif
            POLL_EPOCH = epoch
        :: else
        fi;
        atomic {
            assert(holders == 1);
            if
            :: POLL_DONE -> id = SURPLUS
            :: else -> id = POLL_COUNT; take(id)
            fi
        }
        if
        :: id != SURPLUS -> POLL_COUNT = id + 1
        :: else
        fi;
        unlock();
        if
        :: id == SURPLUS
        :: else ->
            if
            :: PATIENCE_ENDS
            :: POLL_COUNT >= EXPECTED || POLL_DONE
            fi;
            lock();
            if
            :: !has
            :: else ->
                if
                :: !POLL_DONE ->
#ifndef BUG_NEVER_CLOSES
                    POLL_DONE = true;
#endif
#ifndef BUG_FORGETS_COUNT
                    REPORT.groups = POLL_COUNT
#endif
                :: else
                fi;
                atomic { assert(holders == 1); count = POLL_COUNT; agree() }
                unlock()
            fi
        fi
    fi
}

#include "launches.inc"
