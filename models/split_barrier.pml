/* The split barrier of a work-group in software: no work-item passes a phase before all its arrivals, none waits for
   ever, and no arrival is lost, whichever calls arrive, wait and drop. The checks of debug builds find nothing in a
   right
   program. The first work-item stands for two arrivals per phase, which it makes at once or one by one; each may drop
   at
   any phase. Phases have two bits, so that they wrap. A wait that gives up changes nothing, and copies arrive as their
   work-item does.

   No model is needed for `uniform`: its wait is a barrier() that all work-items reach after their arrivals.

   Mirrors: cl_templates/split_barrier/software.mako 5721d9f6a9c5
   Mirrors: cl_templates/split_barrier/counter.mako b1d0ece3c566
   Mirrors: cl_templates/split_barrier/common.mako fe033c69e7bd
   Run: ITEMS=3
   Run: ITEMS=3 PARITY
   Run: ITEMS=4 PHASES=2
   Nightly: ITEMS=4 PHASES=5
   Liveness: ITEMS=3 POLLS
   Bug: RELOADS_LATE ITEMS=3
   Bug: DROPS_LATE ITEMS=3
   Bug: READS_PHASE_LATE ITEMS=3
   Bug: FORGETS_DROPS ITEMS=3
*/
#ifndef PHASES
#define PHASES 5
#endif
#define WORD(x) ((x) & 3)

/* portbar_split_barrier, as portbar_split_barrier_initialize leaves it. */
byte expected = ITEMS + 1;
byte pending = ITEMS + 1;
byte phase;

byte begun[ITEMS];         /* published before each phase: its number, modulo 4 */
bit gone[ITEMS];           /* has dropped all its arrivals */
byte ended;

/* software.mako, portbar_split_count; leaves a token. */
inline count(arrivals, drop, may_complete, leaves)
{
#ifndef BUG_READS_PHASE_LATE
    token = phase;
#endif
#if !defined(BUG_DROPS_LATE) && !defined(BUG_FORGETS_DROPS)
    if :: drop > 0 -> expected = expected - drop :: else fi;
#endif
    atomic {
        before = pending;
        /* PORTBAR_FAULT_OVER_EXPECTED and _COMPLETED; the result of portbar_split_barrier_pending_count. */
        assert(before >= arrivals && before <= ITEMS + 1);
        assert(before != arrivals || may_complete);
        pending = pending - arrivals;
        gone[me] = leaves
    };
#ifdef BUG_DROPS_LATE
    if :: drop > 0 -> expected = expected - drop :: else fi;
#endif
    if
    :: before == arrivals ->
#ifdef BUG_RELOADS_LATE
        phase = WORD(phase + 1);
        before = expected;
        pending = before
#else
        before = expected;
        pending = before;
        phase = WORD(phase + 1)
#endif
    :: else
    fi;
#ifdef BUG_READS_PHASE_LATE
    token = phase;
#endif
    before = 0
}

/* software.mako, portbar_split_completed_token, with the check for PORTBAR_FAULT_STALE_TOKEN, and _parity. */
#ifdef PARITY
#define COMPLETED ((phase & 1) != (round & 1))
#else
#define COMPLETED (phase != token)
#endif

inline wait()
{
    do
    :: atomic { COMPLETED -> assert(WORD(phase - token) <= 1) }; break
#ifdef POLLS
    :: else
#endif
    od
}

proctype item(byte me; byte weight)
{
    byte round, token, before, other;
    do
    :: round < PHASES ->
        begun[me] = round & 3;
        if
        :: weight == 2 -> count(2, 0, true, 0)                              /* arrive_count */
        :: weight == 2 -> count(1, 0, false, 0); count(1, 0, true, 0)       /* arrive_no_complete, arrive */
        :: weight == 2 -> count(1, 1, false, 0); weight = 1; count(1, 0, true, 0)  /* arrive_and_drop_no_complete */
        :: weight == 1 -> count(1, 0, true, 0)                              /* arrive */
        :: weight == 1 -> count(1, 1, true, 1); break                       /* arrive_and_drop */
        fi;
        assert(token == WORD(round));
        wait();
        atomic {
            other = 0;
            do
            :: other < ITEMS -> assert(gone[other] || WORD(begun[other] - round) <= 1); other++
            :: else -> break
            od;
            other = 0
        };
        round++
    :: else -> break
    od;
    ended++
}

init {
    byte i;
    atomic {
        run item(0, 2);
        i = 1;
        do
        :: i < ITEMS -> run item(i, 1); i++
        :: else -> break
        od
    }
}

#ifdef POLLS
ltl ends { <> (ended == ITEMS) }
#endif
