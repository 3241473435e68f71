## -*- coding: utf-8 -*-
## Words of the state buffer and of the leader's local memory; portbar/primitives/layout.py holds the table that both
## sides use.
<%def name="constants()">
/* Layout of the hidden state buffer, in words of 32 bits. */
% for name, offset in layout.items():
#define PORTBAR_STATE_${name} ${offset}u
% endfor
#define PORTBAR_LINE ${line_words}u
#define PORTBAR_REPORTS ${reports}u
#define PORTBAR_REPORT_WORDS ${report_words}u
#define PORTBAR_TREE_FAN ${tree_fan}u
#define PORTBAR_SLOTS ${slots}u
#define PORTBAR_SLOT_WORDS ${slot_words}u
#define PORTBAR_SLOT_AT(slot) (PORTBAR_STATE_SLOTS + (slot) * PORTBAR_SLOT_WORDS)
/* Words of a slot: arrivals at whole barriers, at those that find the best place, and at split barriers; in the first
   slot that is used, four words of votes. */
#define PORTBAR_SLOT_WHOLE 0u
#define PORTBAR_SLOT_PLACING 1u
#define PORTBAR_SLOT_SPLIT 2u
#define PORTBAR_SLOT_VOTES 4u
/* The slots that launches count in, one for each counter, with a flag once they are measured. */
#define PORTBAR_PLACE_MEASURED 0x10000u
#define PORTBAR_PLACE_DEFAULT 0x00100u
/* A word with an invalid slot was overwritten: the default is as good, and lies inside the state. */
#define PORTBAR_PLACE_FIRST(place) (((place) & 0xffu) < PORTBAR_SLOTS ? (place) & 0xffu : 0u)
#define PORTBAR_PLACE_SECOND(place) ((((place) >> 8) & 0xffu) < PORTBAR_SLOTS ? ((place) >> 8) & 0xffu : 1u)
#define PORTBAR_RELEASE_FLAGS ${release_flags}u
#define PORTBAR_GRID_SLICES ${grid_slices}u

/* The hidden launch argument: x = dry-run flag, log2 of the state's capacity in groups, and epoch; y = expected groups;
   z = patience and w = spin limit, in rounds of PORTBAR_POLLS polls. A wait within discovery outlasts the patience. */
#define PORTBAR_DRY_RUN 0x80000000u
#define PORTBAR_EPOCH_MASK 0x00ffffffu
#define PORTBAR_CAPACITY_OF(word) (1u << (((word) >> 24) & 0x1fu))
#define PORTBAR_POLLS ${polls_per_round}u
#define PORTBAR_DISCOVERY_LIMIT(launch) max((launch).w, 4u * min((launch).z, 0x3fffffffu))

/* The poll word: "closed", "prepared", as much of the epoch as fits (the tag), a count of groups. `x` as `launch.x`. */
#define PORTBAR_POLL_CLOSED 0x80000000u
#define PORTBAR_POLL_READY 0x40000000u
#define PORTBAR_POLL_FLAGS 0xc0000000u
#define PORTBAR_TAG_SHIFT(x) ((((x) >> 24) & 0x1fu) + 1u)
#define PORTBAR_TAG(x, epoch) (((epoch) << PORTBAR_TAG_SHIFT(x)) & ~PORTBAR_POLL_FLAGS)
#define PORTBAR_COUNT_OF(x, word) ((word) & ((1u << PORTBAR_TAG_SHIFT(x)) - 1u))
#define PORTBAR_TAG_OF(x, word) ((word) & ~PORTBAR_POLL_FLAGS & ~((1u << PORTBAR_TAG_SHIFT(x)) - 1u))
#define PORTBAR_SURPLUS 0xffffffffu

/* Local memory that a work-group keeps for its leader. */
#define PORTBAR_SHARED_ID 0
#define PORTBAR_SHARED_COUNT 1
#define PORTBAR_SHARED_OK 2
#define PORTBAR_SHARED_TARGET 3
#define PORTBAR_SHARED_SPLIT 4
#define PORTBAR_SHARED_DONE 6
#define PORTBAR_SHARED_PLACE 7
#define PORTBAR_SHARED_TESTS 8
#define PORTBAR_SHARED_LOOP_END 9
#define PORTBAR_SHARED_TICKET 10
#define PORTBAR_SHARED_KEPT 11
#define PORTBAR_SHARED_CLAIMED 12
#define PORTBAR_SHARED_LAST 13
#define PORTBAR_SHARED_VOTE_PHASE 14
#define PORTBAR_SHARED_VOTES 15
#define PORTBAR_SHARED_VOTES_BEFORE 16
#define PORTBAR_SHARED_VOTED 18
#define PORTBAR_SHARED_WANTED 19
#define PORTBAR_SHARED_FIRST 20
#define PORTBAR_SHARED_TEAM_SPLITS 21
#define PORTBAR_SHARED_TEAM_VOTES 22
#define PORTBAR_SHARED_TEAM_NUMBER 23
#define PORTBAR_SHARED_TEAM_OTHERS 24
#define PORTBAR_SHARED_TEAM 25
#define PORTBAR_SHARED_TEAM_RESULT 30
#define PORTBAR_SHARED_WORDS 32

/* How a wait ended. */
#define PORTBAR_WAIT_REACHED 0u
#define PORTBAR_WAIT_DRAIN 1u
#define PORTBAR_WAIT_LIMIT 2u

/* Status in a launch's report. */
#define PORTBAR_STATUS_OPEN ${status_open}u
#define PORTBAR_STATUS_TIMEOUT ${status_timeout}u
#define PORTBAR_STATUS_LOST ${status_lost}u
#define PORTBAR_STATUS_WAIT ${status_wait}u
#define PORTBAR_STATUS_OVERWRITTEN ${status_overwritten}u
</%def>
