## -*- coding: utf-8 -*-
## Words of the state buffer of every grid; portbar/primitives/layout.py holds the table that both sides use.
<%def name="constants()">
${group()}
/* Layout of the hidden state buffer, in words of 32 bits. */
% for name, offset in layout.items():
${defines(f"PORTBAR_STATE_{name}")}
#define PORTBAR_STATE_${name} ${offset}u
% endfor
${defines("PORTBAR_LINE")}
#define PORTBAR_LINE ${line_words}u
${defines("PORTBAR_REPORTS")}
#define PORTBAR_REPORTS ${reports}u
${defines("PORTBAR_REPORT_WORDS")}
#define PORTBAR_REPORT_WORDS ${report_words}u
${defines("PORTBAR_TREE_FAN")}
#define PORTBAR_TREE_FAN ${tree_fan}u
${defines("PORTBAR_SLOTS")}
#define PORTBAR_SLOTS ${slots}u
${defines("PORTBAR_SLOT_WORDS")}
#define PORTBAR_SLOT_WORDS ${slot_words}u
${defines("PORTBAR_SLOT_AT")}
#define PORTBAR_SLOT_AT(slot) (PORTBAR_STATE_SLOTS + (slot) * PORTBAR_SLOT_WORDS)
${end()}
${defines("PORTBAR_SLOT_WHOLE", "PORTBAR_SLOT_PLACING", "PORTBAR_SLOT_SPLIT", "PORTBAR_SLOT_VOTES")}
/* Words of a slot: arrivals at whole barriers, at those that find the best place, and at split barriers; in the first
   slot that is used, four words of votes. */
#define PORTBAR_SLOT_WHOLE 0u
#define PORTBAR_SLOT_PLACING 1u
#define PORTBAR_SLOT_SPLIT 2u
#define PORTBAR_SLOT_VOTES 4u
${defines("PORTBAR_PLACE_MEASURED", "PORTBAR_PLACE_DEFAULT")}
/* The slots that launches count in, one for each counter, with a flag once they are measured. */
#define PORTBAR_PLACE_MEASURED 0x10000u
#define PORTBAR_PLACE_DEFAULT 0x00100u
${defines("PORTBAR_PLACE_FIRST", "PORTBAR_PLACE_SECOND")}
/* A word with an invalid slot was overwritten: the default is as good, and lies inside the state. */
#define PORTBAR_PLACE_FIRST(place) (((place) & 0xffu) < PORTBAR_SLOTS ? (place) & 0xffu : 0u)
#define PORTBAR_PLACE_SECOND(place) ((((place) >> 8) & 0xffu) < PORTBAR_SLOTS ? ((place) >> 8) & 0xffu : 1u)
${defines("PORTBAR_RELEASE_FLAGS")}
#define PORTBAR_RELEASE_FLAGS ${release_flags}u

${defines("PORTBAR_DRY_RUN", "PORTBAR_EPOCH_MASK", "PORTBAR_POLLS", "PORTBAR_DISCOVERY_LIMIT")}
/* The hidden launch argument: x = dry-run flag, log2 of the state's capacity in groups, and epoch; y = expected groups;
   z = patience and w = spin limit, in rounds of PORTBAR_POLLS polls. A wait within discovery outlasts the patience. */
#define PORTBAR_DRY_RUN 0x80000000u
#define PORTBAR_EPOCH_MASK 0x00ffffffu
#define PORTBAR_POLLS ${polls_per_round}u
#define PORTBAR_DISCOVERY_LIMIT(launch) max((launch).w, 4u * min((launch).z, 0x3fffffffu))
${defines("PORTBAR_CAPACITY_OF")}
#define PORTBAR_CAPACITY_OF(word) (1u << (((word) >> 24) & 0x1fu))

${defines("PORTBAR_POLL_CLOSED", "PORTBAR_POLL_READY", "PORTBAR_POLL_FLAGS", "PORTBAR_TAG_SHIFT", "PORTBAR_TAG",
          "PORTBAR_COUNT_OF", "PORTBAR_TAG_OF", "PORTBAR_SURPLUS")}
/* The poll word: "closed", "prepared", as much of the epoch as fits (the tag), a count of groups. `x` as `launch.x`. */
#define PORTBAR_POLL_CLOSED 0x80000000u
#define PORTBAR_POLL_READY 0x40000000u
#define PORTBAR_POLL_FLAGS 0xc0000000u
#define PORTBAR_TAG_SHIFT(x) ((((x) >> 24) & 0x1fu) + 1u)
#define PORTBAR_TAG(x, epoch) (((epoch) << PORTBAR_TAG_SHIFT(x)) & ~PORTBAR_POLL_FLAGS)
#define PORTBAR_COUNT_OF(x, word) ((word) & ((1u << PORTBAR_TAG_SHIFT(x)) - 1u))
#define PORTBAR_TAG_OF(x, word) ((word) & ~PORTBAR_POLL_FLAGS & ~((1u << PORTBAR_TAG_SHIFT(x)) - 1u))
#define PORTBAR_SURPLUS 0xffffffffu

${group()}
/* Local memory that a work-group keeps for its leader. */
% for name, place in places:
${defines(f"PORTBAR_SHARED_{name}")}
#define PORTBAR_SHARED_${name} ${place}
% endfor
${defines("PORTBAR_SHARED_WORDS")}
#define PORTBAR_SHARED_WORDS ${local_words}
${end()}

${defines("PORTBAR_WAIT_REACHED", "PORTBAR_WAIT_DRAIN", "PORTBAR_WAIT_LIMIT")}
/* How a wait ended. */
#define PORTBAR_WAIT_REACHED 0u
#define PORTBAR_WAIT_DRAIN 1u
#define PORTBAR_WAIT_LIMIT 2u

${defines("PORTBAR_STATUS_OPEN")}
/* The status of a launch without a fault. */
#define PORTBAR_STATUS_OPEN ${status_open}u
</%def>
