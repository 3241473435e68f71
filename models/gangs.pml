/* Reductions over work-groups without a grid: each group stores a value, counts itself, and the last one combines all
   and resets the counter; no group waits, so groups may run one after another. Receivers get each launch's result
   once, from all its values. The state after a wrong launch (a group that skipped the reduction, one too many, a lock
   that was not released) affects no other launch, and the host finds it whenever it asks: before its words are
   cleared, meanwhile, or after. A reported fault did happen.

   Mirrors: cl_templates/reduction/gangs.mako 9fe5d9844f3e
   Run: GROUPS=2 LAUNCHES=3
   Run: GROUPS=3 LAUNCHES=2 USES=1
   Run: GROUPS=2 LAUNCHES=5 USES=1
   Nightly: GROUPS=3 LAUNCHES=3
   Nightly: GROUPS=3 LAUNCHES=3 USES=1
   Nightly: GROUPS=2 LAUNCHES=4 USES=1 WRONG=3
   Bug: KEEPS_COUNTER GROUPS=2 LAUNCHES=3
   Bug: COUNTS_BEFORE_IT_STORES GROUPS=2 LAUNCHES=3
   Bug: SHARES_A_COUNTER GROUPS=3 LAUNCHES=3
   Bug: NEVER_CLEARS GROUPS=2 LAUNCHES=3
   Bug: CLEARS_WITHOUT_SAVING GROUPS=2 LAUNCHES=3
   Bug: LOOKS_FOR_A_COPY_FIRST GROUPS=2 LAUNCHES=3
   Bug: CLEARS_TOO_EARLY GROUPS=2 LAUNCHES=3
   Bug: TELLS_IN_TWO_WORDS GROUPS=2 LAUNCHES=3
*/
#ifndef LAUNCHES
#define LAUNCHES 4
#endif
#ifndef USES
#define USES 2              /* ReductionLoop(uses=) */
#endif
#ifndef WRONG
#define WRONG 1             /* launches that go wrong, at most */
#endif
#define PLACES 2            /* LAUNCHES of portbar/primitives/reduction/header.py */
#define PLACE(which) (((which) - 1) % PLACES)

/* The kind of a launch: correct, or one group leaves out a reduction, makes one more, keeps the lock, or does both. */
mtype = { right, leaves_out, one_more, keeps_lock, two_faults };

/* How the host takes a launch's words: portbar/launching/gangs.py, check. A fault is a code and the number of a loop:
   the lock is that of loop 1, the reduction that of loop 2. */
#define FINE 1
#define LEFT 2
#define USED_UP 3
#define LOCKED 4
#define WRONG_LOOP 5
#define NO_FAULT 0
#define FAULT_USES 1
#define FAULT_LOCK 2

/* The state: words of each place, and values that all launches share. */
typedef place_words { byte code, which, counter[USES]; bool lock };
place_words state[PLACES];
byte values[USES * GROUPS];
#define WORDS state[PLACE(running)]

/* The queue, whose commands run one after another; `running` is the launch under way. */
mtype = { launch, copy, fill };
chan commands = [2] of { mtype, byte };
byte running, started, ended, complete, odd, result, wrong;

/* By launch: its kind, whether the host has its words already or has started a copy, and the content of the copy once
   it is there. */
mtype does[LAUNCHES + 1];
byte said[LAUNCHES + 1];
bool has_words[LAUNCHES + 1], has_copy[LAUNCHES + 1];

/* portbar_gang_fault */
inline fault(why, loop)
{
#ifdef BUG_TELLS_IN_TWO_WORDS
    WORDS.which = loop;
    WORDS.code = why
#else
    atomic { WORDS.code = why; WORDS.which = loop }
#endif
}

#ifdef BUG_SHARES_A_COUNTER
#define COUNTER WORDS.counter[0]
#else
#define COUNTER WORDS.counter[used]
#endif
#define LOCK_IS_KEPT (does[running] == keeps_lock || does[running] == two_faults)
#define VALUE(gang) values[used * GROUPS + gang]

inline count()
{
    atomic { COUNTER++; last = COUNTER == GROUPS }
}

/* portbar_finish_<loop>, of a deterministic loop */
inline finish()
{
    if
    :: used < USES ->
#ifdef BUG_COUNTS_BEFORE_IT_STORES
        count();
        VALUE(me) = running;
#else
        VALUE(me) = running;
        count();
#endif
        if
        :: last ->
            atomic {
                for (i : 0 .. GROUPS - 1) { assert(VALUE(i) == running) }
                i = result                      /* portbar_update_<loop> */
            }
            atomic { result = i + 1; i = 0 }
#ifndef BUG_KEEPS_COUNTER
            COUNTER = 0;
#endif
            last = false
        :: !last
        fi
    :: used == USES -> fault(FAULT_USES, 2)
    fi
}

/* <loop>_lock_gang and <loop>_unlock_gang; models/locks.pml has the rest. The limit is far away where a lock comes
   back. */
inline with_lock()
{
    if
    :: atomic { !WORDS.lock -> WORDS.lock = true }
        if
        :: keeps -> skip
        :: !keeps -> WORDS.lock = false
        fi
    :: LOCK_IS_KEPT && WORDS.lock -> fault(FAULT_LOCK, 1)
    fi
}

proctype group(byte me)
{
    byte used, seen, i, uses;
    bool last, keeps;
end_waits:
    do
    :: atomic {
            seen < running && started == me -> seen = running; started++;
            uses = USES;
            if
            :: me != odd || does[running] == right
            :: me == odd && does[running] == leaves_out -> uses = USES - 1
            :: me == odd && (does[running] == one_more || does[running] == two_faults) -> uses = USES + 1
            :: me == odd && does[running] == keeps_lock
            fi;
            keeps = me == odd && LOCK_IS_KEPT
        }
        if
        :: LOCK_IS_KEPT -> with_lock()
        :: !LOCK_IS_KEPT
        fi;
        do
        :: used < uses -> finish(); used++
        :: used == uses -> break
        od;
        atomic { used = 0; uses = 0; keeps = false; ended++ }
    od
}

/* The verdict of GangState.check on the words of a launch. */
inline read_words(asked, answer)
{
    if
    :: state[PLACE(asked)].code == FAULT_USES ->
        answer = (state[PLACE(asked)].which == 2 -> USED_UP : WRONG_LOOP)
    :: state[PLACE(asked)].code == FAULT_LOCK ->
        answer = (state[PLACE(asked)].which == 1 -> LOCKED : WRONG_LOOP)
    :: state[PLACE(asked)].code == NO_FAULT ->
        answer = FINE;
        if :: state[PLACE(asked)].lock -> answer = LOCKED :: else fi;
        for (u : 0 .. USES - 1) { if :: state[PLACE(asked)].counter[u] -> answer = LEFT :: else fi }
        u = 0
    fi
}

#ifdef BUG_CLEARS_TOO_EARLY
#define MAY_CLEAR true
#else
#define MAY_CLEAR (running == complete)
#endif

/* The device, an in-order queue: launches never overlap one another nor copies (portbar/launching/order.py). */
active proctype device()
{
    byte n, u;
    byte g;
    atomic { for (g : 0 .. GROUPS - 1) { run group(g) } g = 0 }
end_waits:
    do
    :: atomic {
            running == complete && commands?[launch, _] -> commands?launch(running);
            if
            :: does[running] = right
            :: wrong < WRONG ->
                wrong++;
                if
                :: does[running] = leaves_out
                :: does[running] = one_more
                :: does[running] = keeps_lock
                :: does[running] = two_faults
                fi;
                select(odd : 0 .. GROUPS - 1)
            fi
        }
    :: atomic {
            running != complete && ended == GROUPS ->
            assert(result == USES - (does[running] == leaves_out));
            complete = running; started = 0; ended = 0; odd = 0; result = 0
        }
    :: atomic {
            MAY_CLEAR && commands?[copy, _] -> commands?copy(n);
            for (g : n + 1 - PLACES .. n) {
                if
                :: has_copy[g] -> read_words(g, said[g])
                :: else
                fi
            }
            n = 0; g = 0
        }
    :: atomic {
            MAY_CLEAR && commands?[fill, _] -> commands?fill(_);
            for (g : 0 .. PLACES - 1) {
                state[g].code = NO_FAULT; state[g].which = 0; state[g].lock = false;
                for (u : 0 .. USES - 1) { state[g].counter[u] = 0 }
            }
            g = 0; u = 0
        }
    od
}

/* GangState.next_place, _clear and remember, and the launch. */
active proctype host()
{
    byte n = 1, g;
    bool wanted;
    do
    :: n > LAUNCHES -> break
    :: n <= LAUNCHES ->
        if
        :: PLACE(n) == 0 && n > 1 ->
#ifndef BUG_CLEARS_WITHOUT_SAVING
            atomic { for (g : n - PLACES .. n - 1) { wanted = wanted || !has_words[g] } g = 0 }
            if
            :: wanted ->
                atomic {
                    for (g : n - PLACES .. n - 1) { has_copy[g] = !has_words[g] }
                    commands!copy(n - 1);
                    g = 0
                }
            :: !wanted
            fi;
            wanted = false;
#endif
#ifndef BUG_NEVER_CLEARS
            commands!fill(0)
#endif
        :: else
        fi;
        atomic { commands!launch(n); n++ }
    od
}

/* GangLaunch.wait of any launch, in another thread. */
active proctype waiter()
{
    byte n, answer, u;
    atomic { complete -> select(n : 1 .. complete) }
#ifdef BUG_LOOKS_FOR_A_COPY_FIRST
    if
    :: has_copy[n] -> said[n] != 0; answer = said[n]
    :: !has_copy[n] -> atomic { read_words(n, answer) }
    fi;
#else
    atomic { read_words(n, answer) }
    if
    :: has_copy[n] -> said[n] != 0; answer = said[n]
    :: !has_copy[n]
    fi;
#endif
    has_words[n] = true;
    if
    :: does[n] == right -> assert(answer == FINE)
    :: does[n] == leaves_out -> assert(answer == LEFT)
    :: does[n] == one_more -> assert(answer == USED_UP)
    :: does[n] == keeps_lock -> assert(answer == LOCKED)
    :: does[n] == two_faults -> assert(answer == USED_UP || answer == LOCKED)
    fi
}
