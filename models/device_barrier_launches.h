/* Launches of a kernel that meets at barriers, for the models of the device barrier: the host and the work-groups.
   Discovery has found the groups and given them their ids, and group 0 has prepared the words. A kernel has ROUNDS
   barriers: whole ones, with SPLIT split ones, with MIXED a whole one between the halves of a split one, with TURNS one
   after the other. With SKIPS one
   group may leave the kernel before any of them; with STRAY something else writes over the abort flag. A group in which
   a barrier returned false leaves, with GOES_ON it calls the others, too. */
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif

#ifdef BUILT_IN
#define COMES (ok || IS_WHOLE && num_groups == GROUPS)  /* the built-in meets groups that have given up, too */
#else
#define COMES ok
#endif

#if defined(SPLIT) || defined(MIXED) || defined(TURNS)
#define HAS_SPLIT
#endif
#ifdef TURNS
#define IS_SPLIT (round & 1)
#define IS_WHOLE !(round & 1)
#else
#define IS_SPLIT true
#define IS_WHOLE true
#endif

bit entered[GROUPS];
byte lost;                 /* groups in which a barrier returned false */
bit skipped;
bit finished;

/* No group leaves a barrier before all have come, and none is a barrier ahead. */
inline all_have_come()
{
    d_step {
        other = 0;
        do
        :: other < num_groups -> assert(BEGUN(other)); other++
        :: else -> break
        od;
        other = 0
    }
}

/* split.mako, portbar_device_barrier_test_wait: false changes nothing. */
inline test_split()
{
    if
    :: ok ->
        told = abort_flag;
        missing_split();
        if
        :: lacking == 0 -> done = 1
        :: lacking != 0 && told -> draining(); ok = 0; done = 1
        :: AT_LIMIT(lacking != 0);
           lacking = num_groups - MIN(lacking, num_groups);
           report_timeout(lacking);
           ok = 0;
           done = 1
        :: lacking != 0 && !told
        fi;
        told = 0;
        lacking = 0
    :: else -> done = 1
    fi
}

/* Tests until it will wait, or until a test says that all have come. */
inline second_half()
{
    do
    :: done -> break
#ifndef WAITS
    :: !done -> test_split()
#endif
#ifndef TESTS
    :: !done -> if :: ok -> wait_split() :: else fi; break
#endif
    od;
    done = 0
}

proctype group(byte me)
{
    byte round, target, other, seen, lacking;
    bit ok, told;
#ifdef HAS_SPLIT
    byte split;
    bit done;
#endif
    OWN_VARIABLES
end:
    do
    :: entered[me] ->
        ok = 1;
        do
#ifdef SKIPS
        :: round < ROUNDS && !skipped -> skipped = 1; break
#endif
#ifdef GOES_ON
        :: round < ROUNDS ->
#else
        :: round < ROUNDS && ok ->
#endif
            d_step { round++; value[me] = (COMES -> round & 3 : value[me]) };
#ifdef HAS_SPLIT
            if :: ok && IS_SPLIT -> arrive_split() :: else fi;
#endif
#ifndef SPLIT
            if :: IS_WHOLE -> whole_barrier() :: else fi;
            if :: ok && IS_WHOLE -> all_have_come() :: else fi;
#endif
#ifdef HAS_SPLIT
            if :: IS_SPLIT -> second_half() :: else fi;
            if :: ok && IS_SPLIT -> all_have_come() :: else fi;
#endif
        :: else -> break
        od;
        atomic {
            lost = lost + 1 - ok;
            round = 0;
            target = 0;
            ok = 0;
#ifdef HAS_SPLIT
            split = 0;
#endif
            OWN_END
            entered[me] = 0
        }
    od
}

/* Opens the report and prepares the words, as group 0 does before it publishes the count of groups. */
inline begin_launch()
{
    d_step {
#ifndef BUG_KEEPS_ABORT
        abort_flag = 0;
#endif
        report_status = OPEN;
        prepare();
        gave_up = 0;
        lost = 0;
        skipped = 0;
        stray = 0;
        i = 0;
        do
        :: i < GROUPS -> value[i] = 0; entered[i] = i < num_groups; i++
        :: else -> break
        od;
        i = 0
    }
}

#ifdef STRAY
proctype writer()
{
end:
    atomic { !finished -> abort_flag = 1; stray = 1 }
}
#endif

init {
    byte i, launch;
    atomic {
        do
        :: i < GROUPS -> run group(i); i++
        :: else -> break
        od;
        i = 0;
        OWN_PROCESSES
#ifdef STRAY
        run writer();
#endif
    }
    do
    :: launch < LAUNCHES ->
        atomic {
            if
            :: num_groups = GROUPS
            :: GROUPS > 1 -> num_groups = GROUPS - 1
            :: GROUPS > 2 -> num_groups = 1
            fi;
            begin_launch()
        }
        do
        :: i < num_groups -> entered[i] == 0; i++
        :: else -> break
        od;
        /* The report to the host. */
        atomic {
            i = 0;
            assert(LIMITED || stray || report_status == OPEN);
            assert((report_status == OPEN) == (lost == 0));
            assert(report_status != OVERWRITTEN || stray);
            launch++
        }
    :: else -> break
    od;
    finished = 1
}

#ifdef POLLS
ltl ends { <> finished }
#endif
