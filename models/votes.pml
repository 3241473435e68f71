/* Votes that travel with the arrivals at a device barrier: whoever leaves one has the sum of the votes that all groups gave
   there, though others may vote again meanwhile, words wrap, arrivals carry into votes, and launches use the words again.
   Nobody leaves before all have come; when a group reaches the spin limit, all leave, as at other barriers. With NARROW
   the votes have a word of their own, which is added to before the arrival and read after the wait.

   Mirrors: cl_templates/device_barrier/vote.mako f2aaa09ee2b6
   Mirrors: cl_templates/backend/barrier.mako e64bd30099bb
   Mirrors: cl_templates/grid/state.mako 66b3b16b2386
   Run: GROUPS=3 ROUNDS=4
   Run: GROUPS=3 NARROW
   Run: GROUPS=3 LIMITED=1 SKIPS ROUNDS=2 LAUNCHES=1
   Run: GROUPS=3 LIMITED=2 GOES_ON NARROW ROUNDS=2 LAUNCHES=1
   Run: GROUPS=3 STRAY ROUNDS=2 LAUNCHES=1
   Nightly: GROUPS=3 ROUNDS=7 LAUNCHES=1
   Nightly: GROUPS=3 LIMITED=1 SKIPS ROUNDS=2
   Liveness: GROUPS=3 POLLS ROUNDS=2
   Bug: HAS_ONE_WORD GROUPS=3
   Bug: HAS_ONE_WORD GROUPS=3 NARROW
   Bug: KEEPS_WORDS GROUPS=3
   Bug: FORGETS_CARRY GROUPS=3 ROUNDS=7
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

byte arrived[2], votes[2];      /* the halves of PORTBAR_STATE_VOTES, or of PORTBAR_SLOT_VOTES */
byte tally[2], tallied[2];      /* what the groups have said in the last two rounds, and which those are */

#define OWN_VARIABLES byte before[2], sum, vote;
#define OWN_END before[0] = 0; before[1] = 0;
#define OWN_PROCESSES

/* portbar_votes_prepare, and the tally. */
inline prepare()
{
#ifndef BUG_KEEPS_WORDS
    arrived[0] = 0;
    arrived[1] = 0;
    votes[0] = 0;
    votes[1] = 0;
#endif
    tallied[0] = 0;
    tallied[1] = 0
}

/* meet_votes: `target` is the phase. */
#ifdef BUG_HAS_ONE_WORD
#define ODD 0
#define GOAL WORD(2 * target * num_groups)
#else
#define ODD (target & 1)
#define GOAL WORD((target + ODD) * num_groups)
#endif
#ifdef BUG_FORGETS_CARRY
#define CARRIED 0
#else
#define CARRIED (GOAL < 2 * num_groups -> 1 : 0)
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
/* One addition to the whole word, whose low half carries into the high one; its answer is the first poll. */
inline arrive()
{
    atomic {
        votes[ODD] = SUM(votes[ODD] + vote + (arrived[ODD] + 2 > WORD(15) -> 1 : 0));
        arrived[ODD] = WORD(arrived[ODD] + 2);
        lacking = LACKING;
        READ
    }
}
#endif

/* portbar_wait_votes. */
inline wait_votes()
{
    do
    :: atomic { REACHES -> READ; break }
    :: abort_flag -> draining(); ok = 0; break
    :: AT_LIMIT(!REACHES);
       lacking = num_groups - MIN(LACKING, num_groups);
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
        check_arrival(lacking, num_groups);
        if
        :: lacking == 0
        :: else -> lacking = 0; wait_votes()
        fi;
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
