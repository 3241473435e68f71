/* Occupancy discovery in one lock-free word. Groups that take part get ids that are dense and different, and agree on
   their number; no group goes on before group 0 has prepared the state. A launch in which a group gave up says so, and
   the next launch is right whatever the one before has left: also where that never ran, or vanished in the midst of it.
   After Sorensen et al. (OOPSLA 2016), with one word in place of the mutex.

   Mirrors: cl_templates/discovery/packed.mako 513ee50fa26b
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Mirrors: cl_templates/grid/grid.mako 08a94aab19cc
   Run: GROUPS=3
   Run: GROUPS=3 COMPLETE=1
   Run: GROUPS=3 LIMITED=1 LAUNCHES=2
   Run: GROUPS=3 LIMITED=1 LAUNCHES=2 EXPECTED=2
   Run: GROUPS=3 CUT=1 LAUNCHES=1
   Run: GROUPS=2 CUT=1 LAUNCHES=3
   Run: GROUPS=2 TAG_SHIFT=4 LAUNCHES=9
   Run: GROUPS=2 TAG_SHIFT=2 LIMITED=1 LAUNCHES=4
   Run: GROUPS=4 LAUNCHES=1
   Liveness: GROUPS=2 LIMITED=1 LAUNCHES=2
   Nightly: GROUPS=3 LIMITED=1
   Nightly: GROUPS=3 LIMITED=1 CUT=1 LAUNCHES=2
   Nightly: GROUPS=3 CUT=1 LAUNCHES=2
   Nightly: GROUPS=4
   Nightly: GROUPS=4 LIMITED=1 LAUNCHES=1
   Nightly liveness: GROUPS=3 LIMITED=1 LAUNCHES=2
   Bug: LEAVES_POLL_OPEN GROUPS=2 LIMITED=1
   Bug: COUNTS_LATE_GROUPS GROUPS=2
   Bug: CLOSES_UNPREPARED GROUPS=3
   Bug: HAS_NO_PATIENCE GROUPS=2
   Bug: NEVER_HEALS GROUPS=2
   Bug: HEALS_BY_STORE GROUPS=2
   Bug: PUBLISHES_NO_TAG GROUPS=2
   Bug: HAS_A_TAG_OF_ONE_BIT GROUPS=2
   Bug: FORGETS_COUNT GROUPS=2
   Bug: KEEPS_ABORT GROUPS=2 LIMITED=1
   Bug: KEEPS_COUNTER GROUPS=2
*/
#ifndef TAG_SHIFT
#define TAG_SHIFT 3         /* PORTBAR_TAG_SHIFT: 3 bits count groups, and tags have the other 3 */
#endif
#define POLL_CLOSED 128
#define POLL_READY 64
#ifdef BUG_HAS_A_TAG_OF_ONE_BIT
#define TAGS (1 << TAG_SHIFT)
#else
#define TAGS (63 & ~((1 << TAG_SHIFT) - 1))
#endif
#define TAG(number) (((number) << TAG_SHIFT) & TAGS)
#define COUNT_OF(word) ((word) & ((1 << TAG_SHIFT) - 1))
#define TAG_OF(word) ((word) & TAGS)

#include "state.inc"

#ifdef BUG_CLOSES_UNPREPARED
#define CAN_CLOSE true
#else
#define CAN_CLOSE (old & POLL_READY)
#endif
#ifdef BUG_COUNTS_LATE_GROUPS
#define IS_CLOSED false
#else
#define IS_CLOSED (old & POLL_CLOSED)
#endif
#ifdef BUG_HEALS_BY_STORE
#define HEALS true
#else
#define HEALS WORD == old
#endif
#ifdef BUG_PUBLISHES_NO_TAG
#define IS_PUBLISHED PUBLISHED
#else
#define IS_PUBLISHED HAS_PUBLISHED
#endif

byte poll[2], PUBLISHED;    /* poll: PORTBAR_STATE_POLL_EVEN and _ODD */
#define HAS_PUBLISHED (TAG_OF(PUBLISHED) == TAG(epoch))
#define STAYS_USABLE true
#define WORD poll[epoch & 1]
#define NEXT_WORD poll[1 - (epoch & 1)]

/* portbar/launching/state.py: QueueState. */
inline fill_state() { poll[1] = TAG(1) }

/* portbar_word_arrive, and the id that it gives where the poll is open. */
inline arrive()
{
    atomic {
        old = WORD;
        WORD = WORD + 1;
        if
        :: TAG_OF(old) == TAG(epoch) && !IS_CLOSED ->
            id = COUNT_OF(old);
            take(id);
            closes = id + 1 == EXPECTED && CAN_CLOSE
        :: else -> id = SURPLUS
        fi
    }
}

/* portbar_poll_heal */
inline heal()
{
    do
    :: LIMITED -> break
#ifdef BUG_NEVER_HEALS
    :: break
#endif
    :: TAG_OF(WORD) == TAG(epoch) -> arrive(); break
    :: atomic { TAG_OF(WORD) != TAG(epoch) -> old = WORD }
        if
        :: atomic { HEALS -> WORD = TAG(epoch) | 1; id = 0; take(id) } break
        :: WORD != old
        fi
    od
}

/* portbar_await_count */
inline await_count()
{
    if
    :: atomic { IS_PUBLISHED -> count = COUNT_OF(PUBLISHED); agree() }
#ifdef BUG_LEAVES_POLL_OPEN
    :: LIMITED
#else
    :: LIMITED ->
        atomic { closes = !(WORD & POLL_CLOSED); WORD = WORD | POLL_CLOSED }
        if
        :: closes -> PUBLISHED = TAG(epoch)
        :: else
        fi
#endif
    fi
}

/* portbar_discover */
inline discover()
{
    arrive();
    if
    :: TAG_OF(old) != TAG(epoch) -> heal()
    :: else
    fi;
    old = 0;
    if
    :: id == SURPLUS
    :: else ->
        if
        :: id == 0 ->
            prepare();
            NEXT_WORD = TAG(epoch + 1);
            atomic { old = WORD; WORD = WORD | POLL_READY }
            if
            :: COUNT_OF(old) < EXPECTED && !(old & POLL_CLOSED) ->
                atomic { PATIENCE_ENDS || COUNT_OF(WORD) >= EXPECTED || (WORD & POLL_CLOSED) -> old = WORD }
            :: else
            fi;
            atomic { closes = !(old & POLL_CLOSED); old = 0 }
        :: else
        fi;
        if
        :: closes ->
            atomic {
                closes = !(WORD & POLL_CLOSED);
                if
                :: closes -> count = COUNT_OF(WORD); agree()
                :: else
                fi;
                WORD = WORD | POLL_CLOSED
            }
        :: else
        fi;
        if
        :: closes ->
#ifndef BUG_FORGETS_COUNT
            REPORT.groups = count;
#endif
            PUBLISHED = TAG(epoch) | count
        :: else -> await_count()
        fi
    fi
}

#include "launches.inc"
