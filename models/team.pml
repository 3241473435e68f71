/* Teams of work-groups: each split clears the counters of its slot, tells all groups the colours, and after a barrier of the
   grid each group works out its rank; by a second barrier all learn how many teams there are. A team then exchanges values by
   barriers of its own, in two areas that take turns, while other teams go on. A slot is taken again after some splits: by then
   no group polls its counters. What groups tell each other in a split has two areas. A wait may reach its limit: then all leave,
   and the host is told. With OLD, a team is used after the split that followed its own, and one slot more is needed.

   The host chooses the colours of each split; the size of portbar_team_split is a colour that needs no second barrier.

   Mirrors: cl_templates/team/team.mako 94eff8440c4d
   Run: GROUPS=2
   Run: GROUPS=3 TIMES=1
   Run: GROUPS=2 SPLITS=3 OLD=1 TIMES=1
   Run: GROUPS=2 LIMITED=1 TIMES=1
   Run: GROUPS=4 SPLITS=1 TIMES=1
   Liveness: GROUPS=2 LIMITED=1 TIMES=1
   Nightly: GROUPS=3 LIMITED=1 TIMES=1
   Nightly: GROUPS=3 SPLITS=3 OLD=1 TIMES=1
   Nightly: GROUPS=3 SPLITS=1 TIMES=3
   Bug: CLEARS_AFTER_THE_BARRIERS GROUPS=2
   Bug: KEEPS_COUNTERS GROUPS=2 LAUNCHES=2
   Bug: HAS_A_SLOT_LESS GROUPS=2
   Bug: HAS_A_SLOT_LESS GROUPS=2 SPLITS=3 OLD=1 TIMES=1
   Bug: TELLS_COLOURS_IN_ONE_AREA GROUPS=3 TIMES=1
   Bug: READS_COLOURS_BEFORE_THE_BARRIER GROUPS=2
   Bug: COUNTS_TEAMS_AFTER_ONE_BARRIER GROUPS=2
   Bug: HAS_ONE_AREA GROUPS=2
   Bug: SHARES_COUNTERS GROUPS=4 SPLITS=1 TIMES=1
   Bug: WAITS_FOR_THE_GRID GROUPS=3 TIMES=1
   Bug: KEEPS_THE_PHASE GROUPS=2
   Bug: READS_BEFORE_THE_BARRIER GROUPS=2
   Bug: WRITES_AFTER_A_FAULT GROUPS=2 LIMITED=1 SPLITS=1 TIMES=3
   Bug: GIVES_UP_SILENTLY GROUPS=2 LIMITED=1 TIMES=1
   Bug: IGNORES_THE_ABORT_FLAG GROUPS=3 LIMITED=1 TIMES=1
*/
#ifndef LIMITED
#define LIMITED 0       /* 1: waits of group 0 may reach their limit; those of others end by the abort flag */
#endif
#ifndef LAUNCHES
#define LAUNCHES 1
#endif
#ifndef SPLITS
#define SPLITS 2        /* of a launch */
#endif
#ifndef TIMES
#define TIMES 2         /* exchanges of a team before the next split */
#endif
#ifndef OLD
#define OLD 0           /* 1: and one after it */
#endif
/* The real text has four slots, and takes two teams in turn with them. */
#ifdef BUG_HAS_A_SLOT_LESS
#define SLOTS (1 + OLD)
#else
#define SLOTS (2 + OLD)
#endif
#ifdef BUG_HAS_ONE_AREA
#define AREAS 1
#else
#define AREAS 2
#endif
#ifdef BUG_TELLS_COLOURS_IN_ONE_AREA
#define TOLD_AREAS 1
#else
#define TOLD_AREAS 2
#endif
#ifdef BUG_SHARES_COUNTERS
#define PER_LINE 4
#else
#define PER_LINE 2
#endif
#define LINES ((GROUPS + 1) / 2)
#define OPEN 1          /* PORTBAR_STATUS_... */
#define TEAM 21

/* Words of the state: PORTBAR_TEAM_COUNTER, _NUMBERS and _VALUES. */
byte counters[SLOTS * LINES], numbers[2 * GROUPS], values[SLOTS * 2 * GROUPS];
bit leads[2 * GROUPS];
#define COUNTER(first, slot) counters[(slot) * LINES + (first) / PER_LINE]
#define NUMBER(split, who) numbers[(split) % TOLD_AREAS * GROUPS + who]
#define LEADS(split, who) leads[(split) % TOLD_AREAS * GROUPS + who]
#define VALUE(slot, turn, place) values[((slot) * 2 + (turn) % AREAS) * GROUPS + place]
bool abort;
byte status;

/* The grid's barrier, which has models of its own. */
byte arrivals;

/* What nobody but the model knows. */
byte launch, ended, told;
byte colours[SPLITS * GROUPS];
bool gave_up;
#define COLOUR(split, who) colours[(split) * GROUPS + who]

typedef portbar_team { byte id, teams, rank, members, first, slot, phase, turn, split };

inline report()
{
#ifndef BUG_GIVES_UP_SILENTLY
    if
    :: atomic { !abort -> abort = true };
        atomic { status = TEAM; told++ }
    :: abort -> skip
    fi
#else
    abort = true
#endif
}

inline wait_for(reached)
{
    if
    :: reached
#ifndef BUG_IGNORES_THE_ABORT_FLAG
    :: abort -> atomic { ok = false; gave_up = true }
#endif
    :: LIMITED && me == 0 && !(reached) -> atomic { ok = false; gave_up = true }; report()
    fi
}

/* portbar_device_barrier */
inline meet_all()
{
    meets++;
    if
    :: ok -> arrivals++; wait_for(arrivals >= GROUPS * meets)
    :: else
    fi
}

/* portbar_team_by_colour */
inline cut()
{
    if
    :: ok ->
#if !defined(BUG_CLEARS_AFTER_THE_BARRIERS) && !defined(BUG_KEEPS_COUNTERS)
        COUNTER(me / 2 * 2, split % SLOTS) = 0;
#endif
        NUMBER(split, me) = COLOUR(split, me)
    :: else
    fi;
#ifndef BUG_READS_COLOURS_BEFORE_THE_BARRIER
    meet_all();
#endif
    atomic { own.id = 0; own.teams = 0; own.rank = 0; own.members = 0; own.first = 0; own.phase = 0; own.turn = 0;
        own.slot = split % SLOTS; own.split = split; i = 0; right = true }
    do
    :: ok && i < GROUPS ->
        atomic {
            right = right && NUMBER(split, i) == COLOUR(split, i);
            own.rank = own.rank + (NUMBER(split, i) == COLOUR(split, me) && i < me);
            own.members = own.members + (NUMBER(split, i) == COLOUR(split, me));
            own.first = own.first + (NUMBER(split, i) < COLOUR(split, me));
            i++
        }
    :: else -> break
    od;
    atomic { assert(right); i = 0 }
    if
    :: ok -> LEADS(split, me) = (own.rank == 0)
    :: else
    fi;
#ifndef BUG_COUNTS_TEAMS_AFTER_ONE_BARRIER
    meet_all();
#endif
#ifdef BUG_CLEARS_AFTER_THE_BARRIERS
    COUNTER(me / 2 * 2, split % SLOTS) = 0;
#endif
    do
    :: ok && i < GROUPS ->
        atomic {
            own.teams = own.teams + LEADS(split, i);
            own.id = own.id + (LEADS(split, i) && NUMBER(split, i) < COLOUR(split, me));
            i++
        }
    :: else -> break
    od;
    atomic {
        i = 0;
        if
        :: ok ->
            /* Two colours at most. */
            assert(own.teams == 1 + (own.members < GROUPS));
            assert(own.id == (own.first > 0));
            assert(own.rank < own.members && own.first + own.members <= GROUPS)
        :: else
        fi
    }
}

#define STAMP(team) (1 + team.phase + 8 * team.split + 32 * launch)

/* portbar_team_exchange, and the loads that follow it */
inline exchange(team)
{
    if
#ifdef BUG_WRITES_AFTER_A_FAULT
    :: team.members > 0 -> VALUE(team.slot, team.turn, team.first + team.rank) = STAMP(team)
#else
    :: ok -> VALUE(team.slot, team.turn, team.first + team.rank) = STAMP(team)
#endif
    :: else
    fi;
    if
    :: ok && team.members > 1 ->
        /* portbar_team_meet */
        COUNTER(team.first, team.slot)++;
#ifndef BUG_READS_BEFORE_THE_BARRIER
#ifdef BUG_WAITS_FOR_THE_GRID
        wait_for(COUNTER(team.first, team.slot) == (team.phase + 1) * GROUPS)
#else
        wait_for(COUNTER(team.first, team.slot) >= (team.phase + 1) * team.members
                 && COUNTER(team.first, team.slot) < (team.phase + 2) * team.members)
#endif
#endif
    :: else
    fi;
    atomic { i = 0; right = true }
    do
    :: ok && i < team.members -> atomic { right = right && VALUE(team.slot, team.turn, team.first + i) == STAMP(team); i++ }
    :: else -> break
    od;
    atomic {
        assert(right);
        i = 0;
        right = false;
#ifndef BUG_KEEPS_THE_PHASE
        team.phase++;
#endif
        team.turn = 1 - team.turn
    }
}

proctype group(byte me)
{
    byte seen, split, number, i, meets;
    bool ok, right;
    portbar_team own, old;
end_waits:
    do
    :: atomic { seen < launch -> seen = launch; ok = true; split = 0; meets = 0 }
        do
        :: split < SPLITS ->
            cut();
            number = 0;
            do
            :: number < TIMES -> exchange(own); number++
            :: number >= TIMES -> break
            od;
#if OLD
            if
            :: split > 0 -> exchange(old)
            :: split == 0
            fi;
            atomic {
                old.rank = own.rank; old.members = own.members; old.first = own.first; old.phase = own.phase;
                old.turn = own.turn; old.slot = own.slot; old.split = own.split
            }
#endif
            split++
        :: split >= SPLITS -> break
        od;
        atomic { ended++; ok = false; number = 0; split = 0 }
    od
}

/* Every launch ends. */
ltl end { [] (launch > 0 && ended < GROUPS -> <> (ended == GROUPS)) }

active proctype host()
{
    byte i;
    atomic { for (i : 0 .. GROUPS - 1) { run group(i) } i = 0 }
    do
    :: launch < LAUNCHES ->
        atomic {
            /* The colours: any cut into two teams or one. */
            i = 0;
            do
            :: i < SPLITS * GROUPS -> colours[i] = 0; i++
            :: i < SPLITS * GROUPS -> colours[i] = 1; i++
            :: i == SPLITS * GROUPS -> break
            od;
            i = 0;
            abort = false; status = OPEN; ended = 0; told = 0; gave_up = false; arrivals = 0;
            launch++
        };
        atomic {
            ended == GROUPS ->
            assert(told <= 1);
            assert(gave_up == (status == TEAM))
        }
    :: launch == LAUNCHES -> break
    od
}
