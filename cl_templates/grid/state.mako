## -*- coding: utf-8 -*-
## What a launch does with the hidden state before its first barrier.
<%def name="once_apart()">
${defines("PORTBAR_APART")}
/* A function that only a leader calls, once per launch: vectors of it, and inlining, would cost a third of a build. */
#define PORTBAR_APART static __attribute__((noinline, optnone))
</%def>
<%def name="local_linear_id()">
${defines("portbar_local_linear_id")}
/* Linear id of the work-item in its work-group, for 1 to 3 dimensions. Caller: any work-item. Cost: little. */
static inline uint portbar_local_linear_id(void)
{
    return (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
}
</%def>
<%def name="local_linear_size()">
${defines("portbar_local_linear_size")}
/* Work-items in a work-group. Caller: any work-item. Cost: little. */
static inline uint portbar_local_linear_size(void)
{
    return (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
}
</%def>
<%def name="is_smaller()">
${defines("portbar_is_smaller")}
/* Whether the work-group is smaller than others (OpenCL C 2.0): ids in the grid assume one size. Any work-item. */
static inline bool portbar_is_smaller(void)
{
    return get_local_size(0) * get_num_groups(0) < get_global_size(0)
        || get_local_size(1) * get_num_groups(1) < get_global_size(1)
        || get_local_size(2) * get_num_groups(2) < get_global_size(2);
}
</%def>
<%def name="is_leader()">
${defines("portbar_is_leader")}
/* True in the one work-item of each work-group that talks to the other groups. */
static inline bool portbar_is_leader(void)
{
% if work_of_all:
    ${work_of_all}
% endif
    return (get_local_id(0) | get_local_id(1) | get_local_id(2)) == 0;
}
</%def>
<%def name="state_prepare()">
${defines("PORTBAR_REPORT")}
/* A launch's report: epoch, status, participating groups; of a fault the arrived groups and the reporting group. */
#define PORTBAR_REPORT(state, epoch) <%text>\</%text>
    ((state) + PORTBAR_STATE_REPORTS + ((epoch) % PORTBAR_REPORTS) * PORTBAR_REPORT_WORDS)

${defines("portbar_note_fault")}
/* Copies a report with a fault to where later launches leave it, for the host, which looks after the launch, so that
   plain stores do. Caller: who reported it. */
static inline void portbar_note_fault(volatile global uint *state, uint epoch)
{
    volatile global uint *report = PORTBAR_REPORT(state, epoch), *last = state + PORTBAR_STATE_FAULT;
    for (uint word = 1u; word < 6u; ++word)
        last[word] = report[word];
    last[0] = epoch;
}

% if counts_in_slots:
${defines("portbar_slots_prepare")}
/* Sets the counters in slots. Caller: as for portbar_state_prepare. */
${once} void portbar_slots_prepare(volatile global uint *state, uint4 launch)
{
    /* Slots other than this launch's hold what they did when the state was made, or are not counted in again. */
% if placing:
    uint place = portbar_word_load(state + PORTBAR_STATE_PLACE);
    if ((place & PORTBAR_PLACE_MEASURED) == 0u) {
        place = PORTBAR_PLACE_DEFAULT;
        for (uint slot = PORTBAR_ROLLED(PORTBAR_SLOTS, launch.w); slot-- != 0u;)
            portbar_word_store(state + PORTBAR_SLOT_AT(slot) + PORTBAR_SLOT_PLACING, 0u);
    }
% else:
    (void)launch;
    const uint place = PORTBAR_PLACE_DEFAULT;
% endif
% for slot in ["FIRST", "SECOND"][:shards]:
    volatile global uint *${slot.lower()} = state + PORTBAR_SLOT_AT(PORTBAR_PLACE_${slot}(place));
    portbar_word_store(${slot.lower()} + PORTBAR_SLOT_WHOLE, 0u);
% if reached("portbar_device_token"):
    portbar_word_store(${slot.lower()} + PORTBAR_SLOT_SPLIT, 0u);
% endif
% endfor
% if reached("portbar_meet_votes"):
    portbar_votes_prepare(first + PORTBAR_SLOT_VOTES);
% if votes_in_two:
    portbar_votes_prepare(second + PORTBAR_SLOT_VOTES);
% endif
% endif
}

% endif
% for one, _, text in preparations:
% if reached(one.needed_by):
## Text without a name of its own must not be taken for the end of the part before it.
${defines()}
${text}
% endif
% endfor
${defines("portbar_state_prepare")}
/* Sets the words that this launch's barriers count in, and opens its report. Caller: the leader of group 0, before it
   publishes the group count. A group that gives up before closes the poll first, so that this one is lost, too. */
${once} void portbar_state_prepare(volatile global uint *state, uint4 launch)
{
% if counts_in_slots:
% if reached("first_slot"):
    portbar_slots_prepare(state, launch);
% endif
% else:
% if reached("portbar_device_token"):
    portbar_word_store(state + PORTBAR_STATE_SPLIT, 0u);
% endif
% if reached("portbar_meet_votes"):
    portbar_votes_prepare(state + PORTBAR_STATE_VOTES);
% endif
% endif
% if reached("portbar_claim"):
    portbar_word_store(state + PORTBAR_STATE_TICKETS, 0u);
% endif
% for one, first, _ in preparations:
% if reached(one.needed_by):
    ${one.function}(state + (${first}), launch);
% endif
% endfor
${prepare_lines}\
    volatile global uint *report = PORTBAR_REPORT(state, launch.x & PORTBAR_EPOCH_MASK);
    portbar_word_store(report + 1, PORTBAR_STATUS_OPEN);
    portbar_word_store(report + 2, 0u);
    portbar_word_store(report, launch.x & PORTBAR_EPOCH_MASK);
## After the report: a group that found no way in may set the flag at any time, and reports it then.
    portbar_word_store(state + PORTBAR_STATE_ABORT, 0u);
}
</%def>
<%def name="report_fault()">
${defines("portbar_report_fault")}
/* Sets the abort flag; reports it once, unknown ones too; groups lost in discovery may see an old one. `seen` and
   `asked` are the status's. Caller: any work-item. */
${once} void portbar_report_fault(volatile global uint *state, uint epoch, uint status, uint seen, uint group,
                                  uint asked)
{
    volatile global uint *report = PORTBAR_REPORT(state, epoch);
    const bool already_set = portbar_word_compare_exchange(state + PORTBAR_STATE_ABORT, 0u, 1u) != 0u;
    bool noted = true;
    if (already_set && status != PORTBAR_STATUS_LOST) {
        /* The work-item that set it in this launch stores another status, before this or after. */
        noted = portbar_word_compare_exchange(report + 1, PORTBAR_STATUS_OPEN, PORTBAR_STATUS_OVERWRITTEN)
                == PORTBAR_STATUS_OPEN;
    } else {
        portbar_word_store(report + 3, seen);
        portbar_word_store(report + 4, group);
        portbar_word_store(report + 5, asked);
        portbar_word_store(report + 1, status);
        portbar_word_store(report, epoch);
    }
    if (noted)
        portbar_note_fault(state, epoch);
}
</%def>
