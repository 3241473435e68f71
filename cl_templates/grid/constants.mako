## -*- coding: utf-8 -*-
## Words of the state buffer and of the leader's local memory; portbar/layout.py holds the table that both sides use.
<%def name="constants()">
/* Layout of the hidden state buffer, in words of 32 bits. Words that are polled have a cache line each. */
% for name, offset in layout.items():
#define PORTBAR_STATE_${name} ${offset}u
% endfor
#define PORTBAR_LINE ${line_words}u
#define PORTBAR_REPORTS ${reports}u
#define PORTBAR_REPORT_WORDS ${report_words}u
#define PORTBAR_TREE_FAN ${tree_fan}u

/* The hidden launch argument: x = dry-run flag, log2 of the state's capacity in groups, and epoch; y = expected groups;
   z = patience and w = spin limit, both in rounds of PORTBAR_POLLS polls. */
#define PORTBAR_DRY_RUN 0x80000000u
#define PORTBAR_EPOCH_MASK 0x00ffffffu
#define PORTBAR_CAPACITY_OF(word) (1u << (((word) >> 24) & 0x1fu))
#define PORTBAR_POLLS ${polls_per_round}u

#define PORTBAR_POLL_CLOSED 0x80000000u
#define PORTBAR_COUNT_MASK 0x00ffffffu
#define PORTBAR_TAG_OF(word) (((word) >> 24) & 0x7fu)
#define PORTBAR_SURPLUS 0xffffffffu

/* Local memory that a work-group keeps for its leader. */
#define PORTBAR_SHARED_ID 0
#define PORTBAR_SHARED_COUNT 1
#define PORTBAR_SHARED_OK 2
#define PORTBAR_SHARED_TARGET 3
#define PORTBAR_SHARED_SPLIT 4
#define PORTBAR_SHARED_ROOT 5
#define PORTBAR_SHARED_DONE 6
#define PORTBAR_SHARED_FAULT 7
#define PORTBAR_SHARED_WORDS 8

/* Status in a launch's report. */
#define PORTBAR_STATUS_OPEN ${status_open}u
#define PORTBAR_STATUS_TIMEOUT ${status_timeout}u
#define PORTBAR_STATUS_LOST ${status_lost}u
</%def>
