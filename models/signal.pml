/* Signals between the work-groups of a grid, launch after launch. Each launch clears them and meets; then a token goes round a
   ring, and all groups add to one signal that group 0 waits for. Who has waited finds what was written before the signal. A
   group may leave without its signals, and a wait may reach its limit: then all waits end, and the host gets a report.
   An addition beyond the largest value is reported, too. The launch that follows is right in any case.

   Discovery and barriers have models of their own: here a launch begins prepared, and a barrier is a counter.

   Mirrors: cl_templates/signal/signal.mako f8049db808a9
   Run: GROUPS=3
   Run: GROUPS=3 LIMITED=1
   Run: GROUPS=3 LIMITED=2
   Run: GROUPS=3 LIMITED=1 LEAVES=1
   Run: GROUPS=3 LIMITED=2 LEAVES=1
   Run: GROUPS=3 ROUNDS=3 MAX=3
   Run: GROUPS=2 ROUNDS=3 MAX=3 LIMITED=2 LEAVES=1
   Liveness: GROUPS=2
   Liveness: GROUPS=2 LIMITED=1 LEAVES=1
   Liveness: GROUPS=3 ROUNDS=3 MAX=3
   Nightly: GROUPS=3 ROUNDS=3 LIMITED=2 LEAVES=1 LAUNCHES=3
   Nightly: GROUPS=4 LIMITED=2 LEAVES=1
   Bug: SIGNALS_BEFORE_IT_WRITES GROUPS=3
   Bug: KEEPS_SIGNALS GROUPS=3
   Bug: CLEARS_WITHOUT_MEETING GROUPS=3
   Bug: ADDS_IN_TWO_STEPS GROUPS=3
   Bug: GIVES_UP_SILENTLY GROUPS=2 LIMITED=1
   Bug: IGNORES_THE_ABORT_FLAG GROUPS=3 LIMITED=1 LEAVES=1
   Bug: REPORTS_TWICE GROUPS=3 LIMITED=2
   Bug: WRAPS GROUPS=3 ROUNDS=3 MAX=3
*/
#ifndef LIMITED
#define LIMITED 0       /* 1: waits of group 0 may reach their limit, those of others end by the abort flag; 2: all may */
#endif
#define MAY_GIVE_UP (LIMITED == 2 || LIMITED == 1 && me == 0)
#ifndef LEAVES
#define LEAVES 0        /* 1: the last group may leave after any round */
#endif
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef MAX
#define MAX 15          /* PORTBAR_SIGNAL_MAX; words wrap at 2 * (MAX + 1) */
#endif
#define WRAPPED(v) ((v) & (2 * MAX + 1))
#define TOTAL GROUPS    /* the signal that all add to */
#define OPEN 1          /* PORTBAR_STATUS_... */
#define TIMEOUT 2
#define OVERWRITTEN 5
#define SIGNAL 6
#define RANGE 7

byte s[GROUPS + 1], cell[GROUPS], met;
bool abort;
byte status, asked;

/* Known only to the model. */
byte launch, ended, told, sum;
bool gave_up, left, too_far;

/* portbar_report_fault; `wanted` goes into the report with its status. */
inline report(what, wanted)
{
    if
    :: atomic { !abort -> abort = true };
        asked = wanted;
        atomic { status = what; told++ }
    :: atomic { abort ->
#ifdef BUG_REPORTS_TWICE
        status = what; told++
#else
        if
        :: status == OPEN -> status = OVERWRITTEN
        :: else -> skip
        fi
#endif
        }
    fi
}

/* portbar_signal_add */
inline add(which)
{
#ifdef BUG_ADDS_IN_TWO_STEPS
    old = s[which];
    s[which] = WRAPPED(old + 1);
#else
    atomic { old = s[which]; s[which] = WRAPPED(old + 1) }
#endif
    if
#ifndef BUG_WRAPS
    :: old + 1 > MAX -> atomic { too_far = true }; report(RANGE, 1)
    :: else -> skip
#else
    :: atomic { old + 1 > MAX -> too_far = true }
    :: else -> skip
#endif
    fi;
    old = 0
}

/* portbar_draining */
inline drain()
{
    atomic { gave_up = true; ok = false;
        if
        :: status == OPEN -> status = OVERWRITTEN
        :: else -> skip
        fi }
}

/* portbar_signal_wait_until_at_least */
inline wait(which, value)
{
    if
    :: s[which] >= value && s[which] <= MAX
    :: s[which] > MAX -> atomic { gave_up = true; ok = false; too_far = true }; report(RANGE, value)
#ifndef BUG_IGNORES_THE_ABORT_FLAG
    :: abort -> drain()
#endif
    :: MAY_GIVE_UP ->
#ifdef BUG_GIVES_UP_SILENTLY
        atomic { gave_up = true; ok = false }
#else
        atomic { gave_up = true; ok = false };
        report(SIGNAL, value)
#endif
    fi
}

/* portbar_device_signals_clear */
inline clear()
{
#ifndef BUG_KEEPS_SIGNALS
    s[me] = 0;
    if
    :: me == 0 -> s[TOTAL] = 0
    :: else -> skip
    fi;
#endif
#ifndef BUG_CLEARS_WITHOUT_MEETING
    met++;
    if
    :: met >= GROUPS
    :: abort -> drain()
    :: MAY_GIVE_UP -> atomic { gave_up = true; ok = false }; report(TIMEOUT, 0)
    fi
#endif
}

/* The value of a cell after a round of a launch. */
#define CONTENT(r) (launch * ROUNDS + (r) + 1)

proctype group(byte me)
{
    byte seen, round, old, want, next = (me + 1) % GROUPS, before = (me + GROUPS - 1) % GROUPS;
    bool ok = true;
end_waits:
    do
    :: seen < launch ->
        clear();
        do
        :: ok && round < ROUNDS ->
            if
            :: true
            :: LEAVES && me == GROUPS - 1 -> atomic { left = true; break }
            fi;
            want = (me == 0 -> round : round + 1);
            wait(me, want);
            if
            :: !ok -> break
            :: ok
            fi;
            /* The hop before: by the last group in the round before, or by the group before in this one. */
            assert(me == 0 && round == 0 || cell[before] == CONTENT(want - 1));
#ifdef BUG_SIGNALS_BEFORE_IT_WRITES
            add(next);
            cell[me] = CONTENT(round);
#else
            cell[me] = CONTENT(round);
            add(next);
#endif
            add(TOTAL);
            round++
        :: !ok || round == ROUNDS -> break
        od;
        if
        :: me == 0 && ok ->
            want = GROUPS * ROUNDS;
            wait(TOTAL, want);
            if
            :: ok -> assert(cell[GROUPS - 1] == CONTENT(ROUNDS - 1))
            :: !ok
            fi
        :: else -> skip
        fi;
        atomic { round = 0; ok = true; old = 0; want = 0; seen++; ended++ }
    od
}

/* Every launch ends. */
ltl end { [] (launch > 0 && ended < GROUPS -> <> (ended == GROUPS)) }

active proctype host()
{
    byte g;
    atomic {
        for (g : 0 .. GROUPS - 1) { run group(g) }
        g = 0
    }
    do
    :: launch < LAUNCHES ->
        /* Discovery: the state is prepared before any group goes on. */
        atomic { abort = false; status = OPEN; met = 0; ended = 0; told = 0; gave_up = false; left = false; too_far = false; launch++ };
        atomic {
            ended == GROUPS ->
            assert(told <= 1);
            assert(!(gave_up || too_far) || status == SIGNAL || status == RANGE || status == TIMEOUT);
            assert(gave_up || too_far || left || status == OPEN);
            assert(status != OPEN || left || s[TOTAL] == GROUPS * ROUNDS);
            assert((status == RANGE) <= too_far)
        }
    :: launch == LAUNCHES -> break
    od
}
