/* Reductions, scans and broadcasts over the groups of a grid: each group leaves a value in an area of the hidden state,
   and reads all of them after a barrier. Two areas take turns, so one barrier per reduction is enough: a reader finds
   the values of this reduction, even if other groups are already at the next one, or a barrier has given up on them
   since. The next launch begins with the first area again, whatever lies there. With SLICED, as in a grid of
   many groups, the last group to come of each slice reads the slice's values before the barrier, and stores its result
   in place of the first.

   Mirrors: cl_templates/reduction/device.mako 455953f11b0e
   Run: GROUPS=2
   Run: GROUPS=3 TIMES=3
   Run: GROUPS=2 LIMITED=1 LAUNCHES=1
   Run: GROUPS=3 TIMES=2 SLICED
   Run: GROUPS=2 LIMITED=1 LAUNCHES=1 TIMES=3 SLICED
   Liveness: GROUPS=2 LIMITED=1 TIMES=2
   Nightly: GROUPS=2 LIMITED=1
   Nightly: GROUPS=3
   Nightly: GROUPS=3 LIMITED=1 LAUNCHES=1 TIMES=3
   Bug: HAS_ONE_AREA GROUPS=2
   Bug: TURNS_IN_SCANS_ONLY GROUPS=2
   Bug: READS_BEFORE_THE_BARRIER GROUPS=2
   Bug: WRITES_AFTER_A_FAULT GROUPS=2 LIMITED=1
   Bug: EACH_IS_LAST GROUPS=3 TIMES=2 SLICED
   Bug: KEEPS_COUNTS GROUPS=2 LIMITED=1 TIMES=2 SLICED
   Bug: COUNTS_ON GROUPS=2 TIMES=2 SLICED
   Bug: HAS_ONE_AREA GROUPS=3 TIMES=3 SLICED
   Bug: WRITES_AFTER_A_FAULT GROUPS=3 LIMITED=1 TIMES=3 SLICED
*/
#ifndef LIMITED
#define LIMITED 0
#endif
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#ifndef TIMES
#define TIMES 4             /* reductions of a launch */
#endif
#ifdef BUG_HAS_ONE_AREA
#define AREAS 1
#else
#define AREAS 2
#endif

/* PORTBAR_GRID_VALUES: `stamp` stands for the value of a group in one reduction of one launch. */
byte values[2 * GROUPS];
#define VALUES(turn, gang) values[(turn) % AREAS * GROUPS + gang]
#define STAMP(number) (launch * 16 + number)

/* A broadcast comes from one group, a scan reads the values of those before; a barrier is the author's own. */
#define FROM (GROUPS - 1)
#ifdef SLICED
#define SLICES ((GROUPS + 1) / 2)
#define MEMBERS(slice) (GROUPS - 2 * (slice) >= 2 -> 2 : 1)
#define READ_OF_ALL SLICES
#define PLACE(i) (does[number] == reduce -> 2 * (i) : (i))
byte counts[SLICES];        /* PORTBAR_STATE_SLICES */
#define OF_SLICE 8          /* makes a stamp that of a slice */
#else
#define OF_SLICE 0
#define READ_OF_ALL GROUPS
#define PLACE(i) (i)
#endif
#define READ_BY(gang) (does[number] == reduce -> READ_OF_ALL : (does[number] == scan -> gang : does[number] == broadcast))
#ifdef BUG_WRITES_AFTER_A_FAULT
#define LEAVES true
#else
#define LEAVES leaves       /* PORTBAR_GRID_LEAVES_VALUES */
#endif
#ifdef BUG_TURNS_IN_SCANS_ONLY
#define NEXT_TURN turn = turn ^ (does[number] == scan)
#else
#define NEXT_TURN turn = turn ^ (does[number] != barrier)
#endif

/* portbar_slices_prepare */
#if defined(SLICED) && !defined(BUG_KEEPS_COUNTS)
#define CLEAR for (n : 0 .. SLICES - 1) { counts[n] = 0 } n = 0
#else
#define CLEAR skip
#endif

/* The barrier, which has models of its own: arrivals only count up, and after a fault no group passes. */
byte arrivals, launch, ended;
bool abort;

/* The operations of every launch. */
mtype = { reduce, scan, broadcast, barrier };
mtype does[TIMES];

/* portbar_device_barrier */
inline meet()
{
    meets++;
    if
    :: ok ->
        arrivals++;
        if
#ifdef BUG_READS_BEFORE_THE_BARRIER
        :: true
#endif
        :: arrivals >= GROUPS * meets
        :: abort -> ok = false
        :: LIMITED -> atomic { abort = true; ok = false }
        fi
    :: else
    fi
}

proctype group(byte me)
{
    byte number, i, seen, meets;
    bool ok, leaves, turn, right, last;
end_waits:
    do
    :: atomic { seen < launch -> seen = launch; ok = true; leaves = true }
        do
        :: number < TIMES ->
            /* The group's value, in the area whose turn it is. */
            if
            :: !LEAVES || does[number] == barrier || (does[number] == broadcast && me != FROM)
            :: LEAVES && does[number] == broadcast && me == FROM -> VALUES(turn, 0) = STAMP(number)
            :: LEAVES && (does[number] == reduce || does[number] == scan) -> VALUES(turn, me) = STAMP(number)
            fi;
#ifdef SLICED
            if
            :: does[number] == reduce && LEAVES ->
                /* portbar_grid_slice_is_last; its counter is clear again before the barrier. */
                atomic {
                    counts[me / 2]++;
#ifdef BUG_EACH_IS_LAST
                    last = true
#else
                    last = counts[me / 2] == MEMBERS(me / 2)
#endif
                }
                if
                :: last ->
#ifndef BUG_COUNTS_ON
                    counts[me / 2] = 0;
#endif
                    right = true;
                    i = 2 * (me / 2);
                    do
                    :: i < 2 * (me / 2) + MEMBERS(me / 2) ->
                       atomic { right = right && VALUES(turn, i) == STAMP(number); i++ }
                    :: else -> break
                    od;
                    VALUES(turn, 2 * (me / 2)) = (right -> STAMP(number) + OF_SLICE : 0)
                :: else
                fi;
                atomic { last = false; right = false; i = 0 }
            :: else
            fi;
#endif
            meet();
            /* The loads, one after another. */
            right = true;
            do
            :: i < READ_BY(me) ->
               atomic { right = right && VALUES(turn, PLACE(i)) == STAMP(number) + (does[number] == reduce -> OF_SLICE : 0); i++ }
            :: else -> break
            od;
            atomic {
                assert(right || !ok);
                leaves = leaves && (ok || does[number] == barrier);     /* PORTBAR_GRID_GAVE_UP */
                right = false;
                i = 0;
                NEXT_TURN;
                number++
            }
        :: number == TIMES -> break
        od;
        atomic { assert(ok || abort); number = 0; meets = 0; turn = false; ok = false; leaves = false; ended++ }
    od
}

/* Every launch ends, by its barriers or by their limits. */
ltl ends { <> (launch == LAUNCHES && ended == GROUPS) }

active proctype host()
{
    byte n;
    atomic {
        for (n : 0 .. GROUPS - 1) { run group(n) }
        for (n : 0 .. TIMES - 1) {
            if :: does[n] = reduce :: does[n] = scan :: does[n] = broadcast :: does[n] = barrier fi
        }
        n = 0;
        launch = 1
    }
    do
    :: atomic { ended == GROUPS && launch < LAUNCHES -> ended = 0; arrivals = 0; abort = false; CLEAR; launch++ }
    :: atomic { ended == GROUPS && launch == LAUNCHES -> break }
    od
}
