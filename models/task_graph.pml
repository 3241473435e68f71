/* A task graph that work-groups execute, launch after launch. Tasks 0 and 1 wait for none; 2 and 3 wait for both and share a
   counter; 4 waits for 2 and 3. A work-group takes the next task of the order, by its number or by a ticket, waits until the
   counter has grown by what each run adds, and adds to the counters of others when it asks for the next one. Each task is
   done once, after those that it waits for. All leave when all are through; the last one prepares the next run, which may
   begin in the same launch. Counters and runs wrap around. A group may leave with its task, and a wait may reach its limit:
   then all leave and the host is told. A launch after such a one fails, unless the host has reset the words.

   Discovery has a model of its own.

   Mirrors: cl_templates/task_graph/task_graph.mako 8d616cd2ba14
   Run: GROUPS=1
   Run: GROUPS=2
   Run: GROUPS=3
   Run: GROUPS=2 TICKETS=1
   Run: GROUPS=3 TICKETS=1 LAUNCHES=2
   Run: GROUPS=2 AGAIN=1 LAUNCHES=2
   Run: GROUPS=2 TICKETS=1 AGAIN=1 LAUNCHES=2
   Run: GROUPS=2 LIMITED=1 LEAVES=1
   Run: GROUPS=2 TICKETS=1 LIMITED=1 LEAVES=1
   Run: GROUPS=2 TICKETS=1 OWN_ORDER=1
   Liveness: GROUPS=2
   Liveness: GROUPS=2 TICKETS=1
   Liveness: GROUPS=2 LEAVES=1 LIMITED=1
   Nightly: GROUPS=3 LIMITED=1 LEAVES=1
   Nightly: GROUPS=3 TICKETS=1 LIMITED=1 LEAVES=1
   Nightly: GROUPS=3 TICKETS=1 AGAIN=1
   Bug: FINISHES_BEFORE_IT_WORKS GROUPS=2
   Bug: WAITS_FOR_ALL_BUT_ONE GROUPS=2
   Bug: ADDS_IN_TWO_STEPS GROUPS=2
   Bug: DRAWS_IN_TWO_STEPS GROUPS=2 TICKETS=1
   Bug: FORGETS_RUNS GROUPS=2
   Bug: COMPARES_WITHOUT_SIGN GROUPS=2
   Bug: LEAVES_TICKETS GROUPS=2 TICKETS=1
   Bug: RESETS_AFTER_IT_RELEASES GROUPS=2 TICKETS=1 AGAIN=1 LAUNCHES=1
   Bug: BEGINS_ANYHOW GROUPS=2 LIMITED=1 LEAVES=1
   Bug: FORGETS_THAT_IT_IS_BROKEN GROUPS=2 LIMITED=1 LEAVES=1
   Bug: ENDS_ALONE GROUPS=2 LIMITED=1 LEAVES=1
   Bug: GIVES_UP_SILENTLY GROUPS=2 LIMITED=1 LEAVES=1
   Bug: IGNORES_THE_ABORT_FLAG GROUPS=3 LIMITED=1 LEAVES=1 LAUNCHES=1
   Bug: TAKES_TOO_FEW_GROUPS GROUPS=1 TICKETS=1 OWN_ORDER=1
*/
#ifndef LIMITED
#define LIMITED 0       /* 1: waits of group 0 may reach their limit; those of others end by the abort flag */
#endif
#ifndef LEAVES
#define LEAVES 0        /* 1: the last group may leave with its task */
#endif
#ifndef LAUNCHES
#define LAUNCHES 3
#endif
#ifndef AGAIN
#define AGAIN 0         /* runs after the first one in a launch */
#endif
#ifndef TICKETS
#define TICKETS 0
#endif
#ifndef OWN_ORDER
#define OWN_ORDER 0     /* 1: task 2 is drawn first, so that two groups are needed */
#endif
#define TASKS 5
#define OPEN 1          /* PORTBAR_STATUS_... */
#define OVERWRITTEN 5
#define WAIT 19
#define GRAPH 20
/* Runs and counters wrap around. */
#define WRAPPED(v) ((v) & 7)
#define FIRST_RUN 3

#if OWN_ORDER
#define TASK(place) ((place) == 0 -> 2 : ((place) < 3 -> (place) - 1 : (place)))
#else
#define TASK(place) (place)
#endif

#ifdef BUG_WAITS_FOR_ALL_BUT_ONE
#define TARGET(r) WRAPPED(((r) + 1) * 2 - 1)
#else
#ifdef BUG_FORGETS_RUNS
#define TARGET(r) WRAPPED((FIRST_RUN + 1) * 2)
#else
#define TARGET(r) WRAPPED(((r) + 1) * 2)
#endif
#endif
#ifdef BUG_COMPARES_WITHOUT_SIGN
#define REACHED(seen, target) ((seen) >= (target))
#else
/* The signed difference is not above 0. */
#define REACHED(seen, target) (WRAPPED((target) - (seen)) == 0 || WRAPPED((target) - (seen)) >= 4)
#endif

byte runs = FIRST_RUN, begun = FIRST_RUN, tickets, through, counter[2];
bool broken, abort;
byte status;

/* What nobody but the model knows. */
byte launch, ended, told, done[TASKS];
bool gave_up, left, stale, complete;

inline report(what)
{
    if
    :: atomic { !abort -> abort = true };
        atomic { status = what; told++ }
    :: atomic { abort ->
        if
        :: status == OPEN -> status = OVERWRITTEN
        :: else -> skip
        fi }
    fi
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

inline give_up()
{
    atomic { gave_up = true; ok = false };
#ifndef BUG_GIVES_UP_SILENTLY
    report(WAIT)
#endif
}

/* portbar_task_graph_finish */
inline finish()
{
    if
    :: task < 4 ->
#ifdef BUG_ADDS_IN_TWO_STEPS
        found = counter[task / 2];
        counter[task / 2] = WRAPPED(found + 1);
        found = 0
#else
        counter[task / 2] = WRAPPED(counter[task / 2] + 1)
#endif
    :: else -> skip
    fi
}

/* A task notes that it is done, and that those were that it waits for. */
inline work()
{
    atomic {
        if
        :: !stale ->
            assert(task < 2 || (done[0] == 1 && done[1] == 1));
            assert(task < 4 || (done[2] == 1 && done[3] == 1));
            done[task]++;
            assert(done[task] == 1)
        :: else -> skip
        fi
    }
}

/* portbar_task_graph_leave */
inline leave()
{
    atomic { through++; found = through };
    if
    :: found == GROUPS ->
        atomic {
            if
            :: !stale ->
                for (i : 0 .. TASKS - 1) { assert(done[i] == 1); done[i] = 0 }
                i = 0; complete = true
            :: else -> skip
            fi
        };
#ifdef BUG_RESETS_AFTER_IT_RELEASES
        runs = WRAPPED(mine + 1);
        through = 0;
        tickets = 0
#else
#ifndef BUG_LEAVES_TICKETS
        tickets = 0;
#endif
        through = 0;
        runs = WRAPPED(mine + 1)
#endif
    :: else ->
#ifndef BUG_ENDS_ALONE
        if
        :: runs == WRAPPED(mine + 1)
#ifndef BUG_IGNORES_THE_ABORT_FLAG
        :: abort && runs != WRAPPED(mine + 1) -> drain()
#endif
        :: LIMITED && me == 0 && runs != WRAPPED(mine + 1) -> give_up()
        fi
#else
        skip
#endif
    fi;
    found = 0
}

proctype group(byte me)
{
    byte seen, mine, place, task, found, i, rounds;
    bool ok, working, refused, none;
end_waits:
    do
    :: seen < launch ->
        atomic { ok = true; rounds = 0 };
        do
        :: ok && rounds <= AGAIN ->
            /* portbar_task_graph_begin; places of groups that take them by their number begin at it. */
            atomic { mine = runs; place = me; none = false; refused = false; working = false };
            if
            :: me == 0 ->
#ifndef BUG_BEGINS_ANYHOW
                if
                :: begun != mine -> broken = true
                :: else -> skip
                fi;
                if
#ifdef BUG_FORGETS_THAT_IT_IS_BROKEN
                :: begun != mine -> refused = true; report(GRAPH)
#else
                :: broken -> refused = true; report(GRAPH)
#endif
                :: else -> skip
                fi;
#endif
                begun = WRAPPED(mine + 1)
            :: else -> skip
            fi;
            do
            :: ok && !none ->
                /* portbar_work_group_task_graph_take */
                if
#ifndef BUG_FINISHES_BEFORE_IT_WORKS
                :: working -> finish()
#endif
                :: else -> skip
                fi;
                if
                :: refused -> atomic { ok = false; gave_up = true; break }
                :: else -> skip
                fi;
                if
                :: TICKETS ->
#ifdef BUG_DRAWS_IN_TWO_STEPS
                    place = tickets;
                    tickets = place + 1
#else
                    atomic { place = tickets; tickets++ }
#endif
                :: !TICKETS && working -> place = place + GROUPS
                :: !TICKETS && !working -> skip
                fi;
                working = false;
                if
                :: place >= TASKS -> none = true; leave()
                :: else ->
                    task = TASK(place);
                    /* portbar_work_group_task_graph_wait */
                    if
                    :: task < 2
                    :: task >= 2 && REACHED(counter[task / 2 - 1], TARGET(mine))
#ifndef BUG_IGNORES_THE_ABORT_FLAG
                    :: task >= 2 && abort && !REACHED(counter[task / 2 - 1], TARGET(mine)) -> drain()
#endif
                    :: LIMITED && me == 0 && task >= 2 && !REACHED(counter[task / 2 - 1], TARGET(mine)) -> give_up()
                    fi;
                    if
                    :: ok ->
#ifdef BUG_FINISHES_BEFORE_IT_WORKS
                        finish();
#endif
                        work();
                        if
                        :: working = true
                        :: LEAVES && me == GROUPS - 1 -> atomic { left = true; ok = false }
                        fi
                    :: else -> skip
                    fi
                fi
            :: !(ok && !none) -> break
            od;
            rounds++
        :: !(ok && rounds <= AGAIN) -> break
        od;
        atomic { seen++; ended++; working = false; refused = false; none = false; task = 0; place = 0; mine = 0; rounds = 0 }
    od
}

/* Every launch ends. */
ltl end { [] (launch > 0 && ended < GROUPS -> <> (ended == GROUPS)) }

active proctype host()
{
    byte i;
    atomic {
        counter[0] = WRAPPED(FIRST_RUN * 2);
        counter[1] = WRAPPED(FIRST_RUN * 2);
        for (i : 0 .. GROUPS - 1) { run group(i) }
        i = 0
    }
    do
    :: launch < LAUNCHES ->
        atomic {
            /* After a launch that failed the host resets the words, or does not; of one whose limit was reached when all
               tasks were done, the words are right. */
            if
            :: (gave_up || left || stale) && !complete ->
                if
                :: stale = true
                :: runs = 0; begun = 0; tickets = 0; through = 0; counter[0] = 0; counter[1] = 0; broken = false;
                    stale = false
                fi
            :: else -> complete = false
            fi;
            for (i : 0 .. TASKS - 1) { done[i] = 0 }
            abort = false; status = OPEN; ended = 0; told = 0; gave_up = false; left = false; i = 0;
            launch++
        };
        atomic {
            ended == GROUPS ->
            assert(told <= 1);
            assert(!gave_up || status == WAIT || status == GRAPH);
            /* A launch of which a group has left is told, unless there was no other group. */
            assert(!left || status != OPEN || GROUPS == 1);
            assert(!stale || status == GRAPH || status == WAIT);
            assert(gave_up || left || stale || status == OPEN)
        }
    :: launch == LAUNCHES -> break
    od
}
