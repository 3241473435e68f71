/* The locks between work-groups. One group at a time holds a lock, whether it waited for it or tried. A work-item that
   gives up does not hold it, and giving up a try, or a wait for a spin lock, has no side effects. An abandoned ticket
   ends the lock: no work-item gets it from then on, even in later launches, and every wait ends at its limit. Without
   that
   the next launch finds the lock free. Tickets serve every group that waits, however often the others come again
   (Mellor-Crummey and Scott, 1991). The gangs' locks are spin locks, without a limit that the author gives.

   Mirrors: cl_templates/lock/lock.mako 763fee7b11fd
   Mirrors: cl_templates/reduction/gangs.mako 9fe5d9844f3e
   Run: GROUPS=3
   Run: GROUPS=3 TICKET=1
   Run: GROUPS=3 TICKET=1 LIMITED=1 LAUNCHES=1
   Run: GROUPS=4 TICKET=1 LAUNCHES=1 ROUNDS=1 LIMITED=1
   Liveness: GROUPS=3 TICKET=1 FOREVER=1
   Nightly: GROUPS=4
   Nightly: GROUPS=4 TICKET=1 LIMITED=1 ROUNDS=1 LAUNCHES=2
   Nightly: GROUPS=3 TICKET=1 LIMITED=1
   Nightly liveness: GROUPS=4 TICKET=1 FOREVER=1
   Bug: LOOKS_BEFORE_IT_LOCKS GROUPS=2
   Bug: DRAWS_A_TICKET_TWICE GROUPS=2 TICKET=1
   Bug: TRIES_WITHOUT_COMPARING GROUPS=2 TICKET=1
   Bug: TAKES_A_TICKET_TO_TRY GROUPS=2 TICKET=1
   Bug: GOES_ON_WITHOUT_THE_LOCK GROUPS=2 TICKET=1 LIMITED=1
   Bug: SERVES_ANYONE GROUPS=2 TICKET=1 FOREVER=1
*/
#ifndef LIMITED
#define LIMITED 0
#endif
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef FOREVER
#define FOREVER 0
#endif
#ifdef BUG_SERVES_ANYONE
#define IS_FREE_FOR_ME (holder == me + 1)
#else
#define IS_FREE_FOR_ME (holder == 0)
#endif
#define NONE 255
#define TICKETS 15          /* tickets wrap after this many: fewer are drawn while a group looks at one */

bool held;
byte next = 12, serving = 12;

/* Known only to the model: the holder of the lock, and the first abandoned ticket. */
byte launch, ended, holder, lost = NONE;

/* portbar_spin_lock_try_acquire and portbar_gang_take; a try gives up soon. */
inline spin_acquire()
{
    do
    :: !held ->
#ifndef BUG_LOOKS_BEFORE_IT_LOCKS
        if
        :: atomic { !held -> held = true } has = true; break
        :: held
        fi
#else
        held = true; has = true; break
#endif
    :: tries || LIMITED -> break
    od
}

/* portbar_ticket_lock_try_acquire. */
inline ticket_try_acquire()
{
    do
    :: ticket = serving;
#ifdef BUG_TRIES_WITHOUT_COMPARING
        if
        :: next == ticket -> next = (ticket + 1) & TICKETS; has = true; break
#else
        if
        :: atomic { next == ticket -> next = (ticket + 1) & TICKETS } has = true; break
#endif
        :: next != ticket ->
#ifdef BUG_TAKES_A_TICKET_TO_TRY
            next = (next + 1) & TICKETS;
#endif
            break
        fi
    od
}

/* portbar_ticket_lock_acquire. */
inline ticket_acquire()
{
#ifdef BUG_DRAWS_A_TICKET_TWICE
    ticket = next;
    next = (ticket + 1) & TICKETS;
#else
    atomic { ticket = next; next = (next + 1) & TICKETS }
#endif
    if
#ifdef BUG_SERVES_ANYONE
    :: atomic { holder == 0 -> holder = me + 1; has = true }
#else
    :: serving == ticket -> has = true
#endif
    :: LIMITED ->
        atomic {
            if
            :: lost == NONE -> lost = ticket
            :: else
            fi
        }
    fi
}

/* The lock taken and given back by portbar_spin_lock_release, portbar_gang_give or portbar_ticket_lock_release. */
inline turn()
{
#ifdef TICKET
    if
    :: tries -> ticket_try_acquire()
    :: !tries -> ticket_acquire()
    fi;
#else
    spin_acquire();
#endif
#ifdef BUG_GOES_ON_WITHOUT_THE_LOCK
    has = true;
#endif
    if
    :: has ->
        atomic { assert(IS_FREE_FOR_ME && lost != serving); holder = me + 1 }
        atomic { assert(holder == me + 1); holder = 0; has = false }
#ifdef TICKET
        ticket = serving;
        serving = (ticket + 1) & TICKETS
#else
        held = false
#endif
    :: !has
    fi;
    ticket = 0
}

proctype group(byte me)
{
    byte ticket, round, seen;
    bool has, tries;
end_waits:
    do
    :: seen < launch ->
        do
        :: round < ROUNDS ->
            if
            :: tries = false
            :: !FOREVER -> tries = true
            fi;
            turn();
            round = round + 1 - FOREVER
        :: round == ROUNDS -> break
        od;
        atomic { round = 0; tries = false; seen++; ended++ }
    od
}

/* Each group gets the lock again and again. */
ltl turns { !FOREVER || []<> (holder == 1) }

active proctype host()
{
    byte g;
    atomic {
        for (g : 0 .. GROUPS - 1) { run group(g) }
        g = 0
    }
    do
    :: launch < LAUNCHES -> launch++;
        atomic {
            ended == GROUPS -> ended = 0;
            assert(!held && (next == serving || lost != NONE))      /* as the next launch finds it */
        }
    :: launch == LAUNCHES -> break
    od
}
