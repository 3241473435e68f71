/* A task queue that work-groups share, launch after launch. A ring has fewer slots than there are tasks. A work-group draws a
   ticket, waits for the task in its slot, and copies it; then it may push tasks, and is finished with its own when it asks for
   the next. Each task is done once, after what its pusher wrote. All leave when all tasks are finished, and unused tickets
   become finished tasks. A group may leave with its task, a wait may reach its limit, and a push may find the queue full: then all
   leave, and the host gets a report. The launch after one that ended well begins with the words that it has left; after
   another the host sets them. A launch has one round or several: group 0 pushes the tasks of the next one as soon as it has
   seen the end of the last, while others may still hold tickets or come for one, and all meet before they take tasks.

   A task that pushes is a number below PARENTS; it pushes two others. Discovery and barriers have models of their own. Sizes of
   frontiers are sums of votes, which `votes` models.

   Mirrors: cl_templates/worklist/worklist.mako addac6a879ad
   Run: GROUPS=2
   Run: GROUPS=3
   Run: GROUPS=2 LIMITED=1
   Run: GROUPS=3 ROOM=4 PARENTS=2
   Run: GROUPS=2 ROOM=2 PARENTS=3
   Run: GROUPS=2 ROOM=2 PARENTS=3 LIMITED=1 LEAVES=1
   Run: GROUPS=2 ROUNDS=3 PARENTS=0
   Run: GROUPS=3 ROUNDS=2 PARENTS=0 LAUNCHES=1
   Run: GROUPS=2 ROUNDS=2 PARENTS=0 LIMITED=1
   Liveness: GROUPS=2
   Liveness: GROUPS=2 ROUNDS=2 PARENTS=0
   Liveness: GROUPS=2 LEAVES=1 LIMITED=1
   Nightly: GROUPS=3 LIMITED=1 LEAVES=1
   Nightly: GROUPS=3 ROOM=2 PARENTS=3 LIMITED=1
   Nightly: GROUPS=3 ROOM=4 PARENTS=3 LAUNCHES=2
   Nightly: GROUPS=3 ROUNDS=3 PARENTS=0
   Nightly: GROUPS=3 ROUNDS=2 ROOM=4
   Bug: READS_PUSHES_FIRST GROUPS=2
   Bug: FINISHES_BEFORE_IT_PUSHES GROUPS=2
   Bug: PUBLISHES_BEFORE_IT_WRITES GROUPS=2
   Bug: FREES_BEFORE_IT_READS GROUPS=2 PARENTS=3
   Bug: TAKES_UNWRITTEN_SLOTS GROUPS=2
   Bug: WRITES_FULL_SLOTS GROUPS=2 ROOM=2 PARENTS=2
   Bug: DRAWS_IN_TWO_STEPS GROUPS=2
   Bug: RESERVES_IN_TWO_STEPS GROUPS=2 ROOM=4 PARENTS=2
   Bug: KEEPS_TICKETS GROUPS=2
   Bug: GIVES_TICKETS_BACK GROUPS=2 ROUNDS=2 PARENTS=0 LAUNCHES=1
   Bug: ENDS_ROUNDS_IN_TWO_STEPS GROUPS=2 ROUNDS=2 PARENTS=0 LAUNCHES=1
   Bug: KEEPS_SLOTS GROUPS=2
   Bug: KEEPS_OLD_TICKETS GROUPS=2 ROUNDS=2 PARENTS=0 LAUNCHES=1
   Bug: LOOKS_FOR_AN_EMPTY_QUEUE GROUPS=2
   Bug: GIVES_UP_SILENTLY GROUPS=2 LIMITED=1
   Bug: IGNORES_THE_ABORT_FLAG GROUPS=3 LIMITED=1 LEAVES=1
   Bug: DROPS_SILENTLY GROUPS=2 ROOM=2 PARENTS=3
*/
#ifndef LIMITED
#define LIMITED 0       /* 1: waits of group 0 may reach their limit; those of others end by the abort flag */
#endif
#ifndef LEAVES
#define LEAVES 0        /* 1: the last group may leave with its task */
#endif
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#ifndef ROOM
#define ROOM 2          /* a power of two */
#endif
#ifndef PARENTS
#define PARENTS 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define MORE 2          /* tasks of each further round */
#define TREE (2 * PARENTS + 1)
#define TASKS (TREE + (ROUNDS - 1) * MORE)
#define OPEN 1          /* PORTBAR_STATUS_... */
#define OVERWRITTEN 5
#define FULL 16
#define IDLE 17
/* Tickets wrap around; more than twice as many as there can be at once. */
#define WRAPPED(v) ((v) & 15)
#define AHEAD(a, b) (WRAPPED((a) - (b)) > 0 && WRAPPED((a) - (b)) < 8)

byte pushed, drawn, finished, slot[ROOM], item[ROOM], met;
bool abort;
byte status;

/* Known only to the model. */
byte launch, ended, told, done[TASKS];
bool written[TASKS], gave_up, left, crowded, dropped;

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

/* portbar_task_queue_push */
inline push(task)
{
#ifdef BUG_RESERVES_IN_TWO_STEPS
    mine = pushed;
    pushed = WRAPPED(mine + 1);
#else
    atomic { mine = pushed; pushed = WRAPPED(pushed + 1) }
#endif
    fits = true;
#ifndef BUG_WRITES_FULL_SLOTS
    if
    :: slot[mine % ROOM] == mine
    :: slot[mine % ROOM] != mine ->
        /* portbar_task_queue_room */
        if
        :: AHEAD(WRAPPED(mine - ROOM + 1), drawn) ->
            atomic { fits = false; crowded = true };
#ifdef BUG_DROPS_SILENTLY
            atomic { dropped = true; pushed = WRAPPED(pushed - 1) }
#else
            report(FULL)
#endif
        :: else ->
            if
            :: slot[mine % ROOM] == mine
            :: abort -> fits = false; drain()
            :: LIMITED && me == 0 -> atomic { fits = false; gave_up = true }; report(IDLE)
            fi
        fi
    fi;
#endif
    if
    :: fits ->
        atomic { written[task] = true };
#ifdef BUG_PUBLISHES_BEFORE_IT_WRITES
        slot[mine % ROOM] = WRAPPED(mine + 1);
        item[mine % ROOM] = task
#else
        item[mine % ROOM] = task;
        slot[mine % ROOM] = WRAPPED(mine + 1)
#endif
    :: else -> skip
    fi;
    atomic { mine = 0; fits = false }
}

/* portbar_task_queue_is_done; `found` is the number of pushes that it saw */
inline look_for_the_end()
{
#ifdef BUG_LOOKS_FOR_AN_EMPTY_QUEUE
    atomic { found = pushed; is_done = (AHEAD(WRAPPED(drawn + 1), pushed)) };
#else
#ifdef BUG_READS_PUSHES_FIRST
    found = pushed;
    is_done = (found == finished);
#else
    found = finished;
    is_done = (found == pushed);
#endif
#endif
}

/* portbar_task_queue_end_round */
inline end_round()
{
#ifdef BUG_KEEPS_TICKETS
    skip;
#else
#ifdef BUG_GIVES_TICKETS_BACK
    drawn = WRAPPED(drawn - 1);
#else
    mine = drawn;
#ifdef BUG_ENDS_ROUNDS_IN_TWO_STEPS
    is_done = (pushed == found);
    if
    :: is_done -> pushed = mine
    :: else -> skip
    fi;
#else
    atomic {
        if
        :: pushed == found -> pushed = mine
        :: else -> is_done = false
        fi
    };
#endif
    if
    :: is_done ->
#ifndef BUG_KEEPS_SLOTS
        left_over = (WRAPPED(mine - found) < ROOM -> WRAPPED(mine - found) : ROOM);
        do
        :: left_over > 0 ->
            slot[WRAPPED(mine - left_over) % ROOM] = WRAPPED(mine - left_over + ROOM);
            left_over--
        :: left_over == 0 -> break
        od;
#endif
        atomic { finished = WRAPPED(finished + mine - found) }
    :: else -> skip
    fi;
    mine = 0
#endif
#endif
}

proctype group(byte me)
{
    byte seen, ticket, mine, task, found, round, left_over;
    bool ok, working, waiting, fits, is_done, comes;
end_waits:
    do
    :: seen < launch ->
        atomic { ok = true; comes = true; round = 0 };
        do
        :: ok ->
            /* portbar_task_queue_look */
            if
            :: working ->
#ifndef BUG_FINISHES_BEFORE_IT_PUSHES
                atomic { finished = WRAPPED(finished + 1); working = false }
#else
                working = false
#endif
            :: else -> skip
            fi;
            if
            :: abort -> drain(); break
            :: !abort
#ifdef BUG_IGNORES_THE_ABORT_FLAG
            :: abort
#endif
            fi;
            if
            :: comes -> look_for_the_end()
            :: else -> skip
            fi;
            atomic { comes = false; found = 0 };
            if
            :: is_done -> goto ended_round
            :: else -> skip
            fi;
#ifdef BUG_DRAWS_IN_TWO_STEPS
            ticket = drawn;
            drawn = WRAPPED(ticket + 1);
#else
            atomic { ticket = drawn; drawn = WRAPPED(drawn + 1) }
#endif
            waiting = true;
            do
            :: waiting ->
                if
#ifdef BUG_TAKES_UNWRITTEN_SLOTS
                :: AHEAD(pushed, ticket) -> atomic { waiting = false; working = true }
#endif
                :: slot[ticket % ROOM] == WRAPPED(ticket + 1) -> atomic { waiting = false; working = true }
#ifndef BUG_KEEPS_OLD_TICKETS
                :: AHEAD(slot[ticket % ROOM], WRAPPED(ticket + 1)) && AHEAD(finished, ticket) ->
                    atomic { is_done = true; waiting = false }
#endif
                :: slot[ticket % ROOM] != WRAPPED(ticket + 1) && !AHEAD(slot[ticket % ROOM], WRAPPED(ticket + 1)) &&
                   (finished == pushed
#ifdef BUG_READS_PUSHES_FIRST
                        || true
#endif
#ifdef BUG_LOOKS_FOR_AN_EMPTY_QUEUE
                        || true
#endif
                        ) ->
                    look_for_the_end();
                    if
                    :: is_done -> end_round()
                    :: else -> skip
                    fi;
                    atomic { found = 0; waiting = !is_done }
#ifndef BUG_IGNORES_THE_ABORT_FLAG
                :: abort -> drain(); waiting = false
#endif
                :: LIMITED && me == 0 && slot[ticket % ROOM] != WRAPPED(ticket + 1) ->
                    atomic { gave_up = true; ok = false; waiting = false };
#ifndef BUG_GIVES_UP_SILENTLY
                    report(IDLE)
#endif
                fi
            :: !waiting -> break
            od;
ended_round:
            if
            :: is_done ->
                /* The tasks of this round and of those before it are done. The next round: nothing separates it from the last. */
                atomic {
                    if
                    :: !gave_up && !crowded && !left && !abort ->
                        for (mine : 0 .. TREE + round * MORE - 1) { assert(done[mine] == 1) }
                    :: else -> skip
                    fi;
                    mine = 0; is_done = false; waiting = false; round++
                };
                if
                :: round == ROUNDS -> ok = false
                :: else ->
                    if
                    :: me == 0 ->
                        push(TREE + (round - 1) * MORE);
                        push(TREE + (round - 1) * MORE + 1)
                    :: else -> skip
                    fi;
                    /* A device barrier. */
                    if
                    :: ok ->
                        met++;
                        if
                        :: met >= GROUPS * round -> comes = true
                        :: abort -> drain()
                        fi
                    :: else -> skip
                    fi
                fi
            :: else -> skip
            fi;
            if
            :: working ->
#ifdef BUG_FREES_BEFORE_IT_READS
                slot[ticket % ROOM] = WRAPPED(ticket + ROOM);
                task = item[ticket % ROOM];
#else
                task = item[ticket % ROOM];
                slot[ticket % ROOM] = WRAPPED(ticket + ROOM);
#endif
                atomic { assert(task < TASKS && written[task]); done[task]++; assert(done[task] == 1) };
                if
                :: true
                :: LEAVES && me == GROUPS - 1 -> atomic { left = true; working = false; break }
                fi;
#ifdef BUG_FINISHES_BEFORE_IT_PUSHES
                finished = WRAPPED(finished + 1);
#endif
                if
                :: task < PARENTS ->
                    push(2 * task + 1);
                    push(2 * task + 2)
                :: else -> skip
                fi;
                task = 0
            :: else -> skip
            fi
        :: !ok -> break
        od;
        atomic { seen++; ended++; working = false; waiting = false; ticket = 0; task = 0; round = 0; comes = false }
    od
}

/* Every launch ends. */
ltl end { [] (launch > 0 && ended < GROUPS -> <> (ended == GROUPS)) }

active proctype host()
{
    byte i;
    atomic {
        for (i : 0 .. ROOM - 1) { slot[i] = i }
        for (i : 0 .. GROUPS - 1) { run group(i) }
        i = 0
    }
    do
    :: launch < LAUNCHES ->
        atomic {
            /* The host's task: on top of what the last launch left, or with words that are set again. */
            if
            :: abort || left ->
                for (i : 0 .. ROOM - 1) { slot[i] = i }
                pushed = 0; drawn = 0; finished = 0
            :: else -> skip
            fi;
            for (i : 0 .. TASKS - 1) { done[i] = 0; written[i] = false }
            assert(slot[pushed % ROOM] == pushed);
            item[pushed % ROOM] = 0;
            slot[pushed % ROOM] = WRAPPED(pushed + 1);
            pushed = WRAPPED(pushed + 1);
            written[0] = true;
            abort = false; status = OPEN; ended = 0; told = 0; met = 0;
            gave_up = false; left = false; crowded = false; dropped = false; i = 0;
            launch++
        };
        atomic {
            ended == GROUPS ->
            assert(told <= 1);
            assert(!(gave_up || crowded) || status == FULL || status == IDLE);
            assert(gave_up || crowded || left || status == OPEN);
            if
            :: status == OPEN && !left ->
                for (i : 0 .. TASKS - 1) { assert(done[i] == 1) }
                assert(drawn == pushed && finished == pushed);
                i = 0
            :: else -> skip
            fi
        }
    :: launch == LAUNCHES -> break
    od
}
