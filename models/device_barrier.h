/* Shared by the models of the device barrier: words of the state, the report to the host, and the bounded wait.

   A poll that finds nothing changes nothing, so a group that polls is blocked here until it may find something: a hang
   is then a run that ends with a group in a wait. With POLLS it does poll, for searches under weak fairness. At most
   LIMITED groups a launch reach the spin limit, at any poll; the others must find the abort flag. */
#ifndef LIMITED
#define LIMITED 0
#endif
#ifndef LEAST_ARRIVED
#define LEAST_ARRIVED 1
#endif
#ifndef BITS
#define BITS 3
#endif
#ifdef POLLS
#define POLL_AGAIN :: else
#else
#define POLL_AGAIN
#endif

/* Words have BITS bits, so that they wrap as those of 32 bits do. */
#define WORD(x) ((x) & ((1 << BITS) - 1))
/* Whether a word has come to `target`, and not further beyond it than others can have taken it: wait.mako's `polls`. */
#ifdef BUG_EXACT
#define REACHED(word, target) (WORD((word) - (target)) == 0)
#else
#define REACHED(word, target) (WORD((word) - (target)) < num_groups)
#endif
/* The missing arrivals, as in portbar_missing and portbar_split_missing. */
#define MISSING(word, target) (REACHED(word, target) -> 0 : WORD((target) - (word)))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

mtype = { OPEN, TIMEOUT, OVERWRITTEN };

byte num_groups;           /* that take part in this launch */
bit abort_flag;            /* PORTBAR_STATE_ABORT */
mtype report_status = OPEN;
byte value[GROUPS];        /* published before each barrier: its number, modulo 4 */
byte gave_up;              /* groups that have reached the limit in this launch */
bit stray;                 /* something else has written over the abort flag */

/* Whether a group's value is that of the caller's round, or of the next. */
#define BEGUN(other) (((value[other] - round) & 3) <= 1)

/* grid/state.mako, portbar_report_fault. */
inline report_fault(what)
{
    atomic { told = abort_flag; abort_flag = 1 }
#ifdef BUG_TELLS_TWICE
    report_status = (told -> OVERWRITTEN : what);
#else
    if
    :: told -> atomic { if :: report_status == OPEN -> report_status = OVERWRITTEN :: else fi }
    :: else -> report_status = what
    fi;
#endif
    told = 0
}

/* Reports a wait that has reached the limit. It reports as many groups as can have arrived. */
inline report_timeout(had_arrived)
{
    d_step {
        seen = 0;
        other = 0;
        do
        :: other < num_groups -> seen = seen + (BEGUN(other) -> 1 : 0); other++
        :: else -> break
        od;
        assert(had_arrived >= LEAST_ARRIVED && had_arrived <= seen);
        other = 0;
        seen = 0
    }
#ifndef BUG_FORGETS_REPORT
    report_fault(TIMEOUT)
#endif
}

/* wait.mako, portbar_draining: true where it is called. */
inline draining()
{
    report_fault(OVERWRITTEN)
}

/* backend/barrier.mako, portbar_check_arrival: in a right launch it finds nothing. */
inline check_arrival(lacking, members)
{
    if
    :: (lacking) >= (members) -> assert(false)
    :: else
    fi
}

/* The end of a wait at the limit, as a choice of a poll loop. */
#define AT_LIMIT(missed) (missed) && gave_up < LIMITED -> gave_up++

/* wait.mako, portbar_wait_counted. The load of `arrivals` comes after the last poll. */
inline wait_counted(word, goal, arrivals, complete)
{
    do
    :: REACHED(word, goal) -> break
#ifndef BUG_IGNORES_ABORT
    :: abort_flag -> draining(); ok = 0; break
#endif
    :: AT_LIMIT(!REACHED(word, goal));
#ifdef BUG_COUNTS_NONE
       lacking = num_groups - MIN(WORD(complete - arrivals), num_groups);
#else
       lacking = num_groups - MIN(MISSING(arrivals, complete), num_groups);
#endif
       report_timeout(lacking);
       lacking = 0;
       ok = 0;
       break
    POLL_AGAIN
    od
}

/* PORTBAR_SLOT_WHOLE and PORTBAR_SLOT_SPLIT of each slot, for algorithms that count in slots. */
#define WHOLE_FORM 0
#define SPLIT_FORM 1
#define COUNTER(slot, form) counters[2 * (slot) + (form)]
