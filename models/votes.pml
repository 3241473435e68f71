/* Votes that travel with the arrivals at a device barrier: a group that leaves one has the sum of the votes that all
   groups gave there, though others may vote again meanwhile, words wrap, arrivals carry into votes, and launches use
   the words again.
   No group leaves before all have come; when a group reaches the spin limit, all leave, as at other barriers. With
   NARROW
   the votes have a word of their own, which is added to before the arrival and read after the wait. With SHARDED or
   REPLICATED there are two such words, as the barriers of these names have counters.

   Mirrors: cl_templates/device_barrier/vote.mako ae005a235d0f
   Mirrors: cl_templates/device_barrier/sharded.mako ad974c63cb99
   Mirrors: cl_templates/device_barrier/replicated.mako b50352560162
   Mirrors: cl_templates/backend/barrier.mako 56397b84e653
   Mirrors: cl_templates/grid/state.mako 5c7ddf490e46
   Run: GROUPS=3 ROUNDS=4
   Run: GROUPS=3 NARROW
   Run: GROUPS=2 LIMITED=1 SKIPS
   Run: GROUPS=3 SHARDED ROUNDS=4
   Run: GROUPS=3 REPLICATED ROUNDS=4
   Run: GROUPS=2 LIMITED=1 SKIPS SHARDED
   Run: GROUPS=2 LIMITED=1 SKIPS REPLICATED
   Run: GROUPS=2 LIMITED=2 GOES_ON NARROW
   Run: GROUPS=3 STRAY ROUNDS=2 LAUNCHES=1
   Nightly: GROUPS=3 ROUNDS=7 LAUNCHES=1
   Nightly: GROUPS=3 LIMITED=1 SKIPS ROUNDS=2
   Nightly: GROUPS=3 LIMITED=1 SKIPS SHARDED ROUNDS=2 LAUNCHES=1
   Nightly: GROUPS=3 LIMITED=1 SKIPS REPLICATED ROUNDS=2 LAUNCHES=1
   Nightly: GROUPS=3 LIMITED=2 GOES_ON NARROW ROUNDS=2 LAUNCHES=1
   Liveness: GROUPS=3 POLLS ROUNDS=2
   Bug: HAS_ONE_WORD GROUPS=3
   Bug: HAS_ONE_WORD GROUPS=3 NARROW
   Bug: KEEPS_WORDS GROUPS=3
   Bug: FORGETS_CARRY GROUPS=3 ROUNDS=7
   Bug: HAS_ONE_WORD GROUPS=3 SHARDED
   Bug: HAS_ONE_WORD GROUPS=3 REPLICATED
   Bug: FORGETS_CARRY GROUPS=3 ROUNDS=7 SHARDED
   Bug: READS_ONE GROUPS=3 SHARDED
   Bug: FORGETS_WHAT_WAS_THERE GROUPS=3
   Bug: VOTES_AFTER_ARRIVING GROUPS=3 NARROW
   Bug: IGNORES_REST GROUPS=3 LIMITED=1 SKIPS
*/
/* The low half has 4 bits, so that three groups' arrivals, which count for two each, wrap; the high half has 2. */
#ifndef ROUNDS
#define ROUNDS 3
#endif
#define BITS 4
#define SUM(x) ((x) & 3)
#include "device_barrier.h"

byte arrived[4], votes[4];      /* the halves of PORTBAR_STATE_VOTES, or of PORTBAR_SLOT_VOTES in one or two slots */
byte tally[2], tallied[2];      /* what the groups have said in the last two rounds, and which those are */

#define OWN_VARIABLES byte before[2], sum, vote, low;
#define OWN_END before[0] = 0; before[1] = 0;
#define OWN_PROCESSES

/* portbar_votes_prepare, and the tally. */
inline prepare()
{
#ifndef BUG_KEEPS_WORDS
    d_step {
        arrived[0] = 0; arrived[1] = 0; arrived[2] = 0; arrived[3] = 0;
        votes[0] = 0; votes[1] = 0; votes[2] = 0; votes[3] = 0
    }
#endif
    tallied[0] = 0;
    tallied[1] = 0
}

/* meet_votes: `target` is the phase. */
#ifdef BUG_HAS_ONE_WORD
#define ODD 0
#define GOAL_OF(members) WORD(2 * target * (members))
#else
#define ODD (target & 1)
#define GOAL_OF(members) WORD((target + ODD) * (members))
#endif
#define GOAL GOAL_OF(num_groups)
#define AT(word) (2 * (word) + ODD)
#define MEMBERS(shard) (num_groups / 2 + ((shard) < (num_groups & 1) -> 1 : 0))
#define HAS_CARRIED(members) (GOAL_OF(members) < 2 * (members) -> 1 : 0)
#ifdef BUG_FORGETS_CARRY
#define CARRIED 0
#elif defined(SHARDED)
#define CARRIED (HAS_CARRIED(MEMBERS(0)) + HAS_CARRIED(MEMBERS(1)))
#else
#define CARRIED HAS_CARRIED(num_groups)
#endif
#if defined(SHARDED) || defined(REPLICATED)
#define TWO
#endif
#ifdef BUG_IGNORES_REST
#define REACHES (WORD(GOAL - arrived[ODD]) <= 2)
#else
#define REACHES (arrived[ODD] == GOAL)
#endif
#define LACKING (WORD(GOAL - arrived[ODD]) / 2)

#ifdef NARROW
#define READ skip
#define READ_AFTER sum = votes[ODD]
#define RIGHT (SUM(sum - before[ODD]) == tally[round & 1])
inline arrive()
{
#ifndef BUG_VOTES_AFTER_ARRIVING
    votes[ODD] = SUM(votes[ODD] + vote);
#endif
    atomic { arrived[ODD] = WORD(arrived[ODD] + 2); lacking = LACKING };
#ifdef BUG_VOTES_AFTER_ARRIVING
    votes[ODD] = SUM(votes[ODD] + vote)
#endif
}
#else
#define READ sum = votes[ODD]
#define READ_AFTER skip
#define RIGHT (SUM(sum - before[ODD] - CARRIED) == tally[round & 1])
/* One addition to the whole word, whose low half carries into the high one. */
#define ADD_TO(word) \
    votes[AT(word)] = SUM(votes[AT(word)] + vote + (arrived[AT(word)] + 2 > WORD(15) -> 1 : 0)); \
    arrived[AT(word)] = WORD(arrived[AT(word)] + 2)
#ifdef SHARDED
inline arrive()
{
    atomic { ADD_TO(me & 1) }
}
#elif defined(REPLICATED)
/* In any order. */
inline arrive()
{
    if
    :: atomic { ADD_TO(0) }; atomic { ADD_TO(1) }
    :: atomic { ADD_TO(1) }; atomic { ADD_TO(0) }
    fi
}
#else
/* Its answer is the first poll. */
inline arrive()
{
    atomic {
        ADD_TO(0);
        lacking = LACKING;
        READ
    }
}
#endif
#endif

/* The words that a wait checks, and the arrivals that may be missing at the limit. Of two words the second is looked at
   after the first. */
#ifdef SHARDED
#define LOOKS \
    atomic { arrived[AT(0)] == GOAL_OF(MEMBERS(0)) -> low = arrived[AT(0)]; sum = votes[AT(0)] }; \
    atomic { \
        if \
        :: SECOND_COMPLETES -> SECOND_COUNTS; low = 0; break \
        :: else -> low = 0; sum = 0 \
        fi \
    }
#ifdef BUG_READS_ONE
#define SECOND_COMPLETES true
#else
#define SECOND_COMPLETES WORD(low + arrived[AT(1)]) == GOAL
#endif
#define SECOND_COUNTS sum = SUM(sum + votes[AT(1)])
#define IS_THERE (WORD(arrived[AT(0)] + arrived[AT(1)]) == GOAL)
#define MISSES (WORD(GOAL - arrived[AT(0)] - arrived[AT(1)]) / 2)
#elif defined(REPLICATED)
#define LOOKS atomic { IS_THERE -> sum = votes[AT(me & 1)]; break }
#define IS_THERE (arrived[AT(me & 1)] == GOAL)
#define MISSES (WORD(GOAL - arrived[AT(me & 1)]) / 2)
#else
#define LOOKS atomic { REACHES -> READ; break }
#define IS_THERE REACHES
#define MISSES LACKING
#endif

/* portbar_wait_votes. */
inline wait_votes()
{
    do
    :: LOOKS
    :: abort_flag -> draining(); ok = 0; break
    :: AT_LIMIT(!IS_THERE);
       lacking = num_groups - MIN(MISSES, num_groups);
       report_timeout(lacking);
       lacking = 0;
       ok = 0;
       break
    POLL_AGAIN
    od
}

inline whole_barrier()
{
    if
    :: ok ->
        atomic {
            if
            :: me != 2 -> vote = 0
            :: vote = 1
            fi;
            if
            :: tallied[round & 1] == round -> tally[round & 1] = tally[round & 1] + vote
            :: else -> tallied[round & 1] = round; tally[round & 1] = vote
            fi;
            target = WORD(target + 1)
        };
        arrive();
#ifdef TWO
        wait_votes();
#else
        check_arrival(lacking, num_groups);
        if
        :: lacking == 0
        :: else -> lacking = 0; wait_votes()
        fi;
#endif
        if
        :: ok ->
            READ_AFTER;
            atomic {
                assert(RIGHT);
#ifndef BUG_FORGETS_WHAT_WAS_THERE
                before[ODD] = sum;
#endif
                sum = 0
            }
        :: else
        fi;
        vote = 0
    :: else
    fi
}

#include "device_barrier_launches.h"
