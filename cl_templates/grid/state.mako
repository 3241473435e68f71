## -*- coding: utf-8 -*-
## What a launch does with the hidden state before its first barrier.
<%def name="local_linear_id()">
/* Linear id of the work-item in its work-group, for 1-, 2- and 3-dimensional local sizes. Any work-item. */
static inline uint portbar_local_linear_id(void)
{
    return (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
}
</%def>
<%def name="local_linear_size()">
/* Work-items in a work-group. Any work-item. */
static inline uint portbar_local_linear_size(void)
{
    return (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
}
</%def>
<%def name="is_smaller()">
/* True in a work-group at the end of a dimension whose global size is no multiple of the local size, as launches from OpenCL C 2.0 on may
   have. Any work-item. */
static inline bool portbar_is_smaller(void)
{
#if __OPENCL_C_VERSION__ >= 200
    return get_local_size(0) * get_num_groups(0) < get_global_size(0) || get_local_size(1) * get_num_groups(1) < get_global_size(1)
        || get_local_size(2) * get_num_groups(2) < get_global_size(2);
#else
    return false;
#endif
}
</%def>
<%def name="is_leader()">
/* True in the one work-item of each work-group that talks to the other groups. */
static inline bool portbar_is_leader(void)
{
% if leader_forgotten:
    /* Something that each work-item does: see the quirk pocl-leader-forgotten. */
    volatile uint item = (uint)get_local_id(0);
    (void)item;
% endif
    return (get_local_id(0) | get_local_id(1) | get_local_id(2)) == 0;
}
</%def>
<%def name="state_prepare()">
/* Sets the words that this launch's barriers count in. Caller: the leader of group 0, before it publishes the group count. */
static inline void portbar_state_prepare(volatile global uint *state, uint4 launch)
{
    portbar_word_store(state + PORTBAR_STATE_COUNTER, 0u);
% if counts_in_slots:
    /* Slots other than this launch's hold what they did when the state was made, or nobody will count in them again. */
% if placing:
    uint place = portbar_word_load(state + PORTBAR_STATE_PLACE);
    if ((place & PORTBAR_PLACE_MEASURED) == 0u) {
        place = PORTBAR_PLACE_DEFAULT;
        portbar_word_store(state + PORTBAR_STATE_SLOTS + PORTBAR_SLOT_AGREED, 0u);
        for (uint slot = 0; slot < PORTBAR_SLOTS; ++slot)
            portbar_word_store(state + PORTBAR_STATE_SLOTS + slot * PORTBAR_SLOT_WORDS + PORTBAR_SLOT_PLACING, 0u);
    }
% else:
    const uint place = PORTBAR_PLACE_DEFAULT;
% endif
% for slot in ["FIRST", "SECOND"][:shards]:
    portbar_word_store(state + PORTBAR_STATE_SLOTS + PORTBAR_PLACE_${slot}(place) * PORTBAR_SLOT_WORDS + PORTBAR_SLOT_WHOLE, 0u);
    portbar_word_store(state + PORTBAR_STATE_SLOTS + PORTBAR_PLACE_${slot}(place) * PORTBAR_SLOT_WORDS + PORTBAR_SLOT_SPLIT, 0u);
% endfor
% endif
    portbar_word_store(state + PORTBAR_STATE_SPLIT, 0u);
% if barrier == "flag":
    portbar_word_store(state + PORTBAR_STATE_FLAG, 0u);
% endif
    portbar_word_store(state + PORTBAR_STATE_ABORT, 0u);
% if barrier == "tree":
    const uint launched = (uint)(get_num_groups(0) * get_num_groups(1) * get_num_groups(2));
    volatile global uint *node = state + PORTBAR_STATE_GROUPS + 2u * PORTBAR_CAPACITY_OF(launch.x);
    for (uint i = 0; i < launched; i += PORTBAR_TREE_FAN, node += PORTBAR_LINE)
        portbar_word_store(node, 0u);
% if release_flagged:
    for (uint flag = 0; flag < PORTBAR_RELEASE_FLAGS; ++flag)
        portbar_word_store(state + PORTBAR_STATE_RELEASED + flag * PORTBAR_LINE, 0u);
% endif
% else:
    (void)launch;
% endif
}
</%def>
<%def name="report_open()">
/* Opens this launch's report, which the host reads when it waits. Caller: the leader of the first group that polled. A group that
   gives up before that closes the poll first, so that this one is lost as well and says so after this. */
static inline void portbar_report_open(volatile global uint *state, uint epoch)
{
    volatile global uint *report = state + PORTBAR_STATE_REPORTS + (epoch % PORTBAR_REPORTS) * PORTBAR_REPORT_WORDS;
    portbar_word_store(report + 1, PORTBAR_STATUS_OPEN);
    portbar_word_store(report + 2, 0u);
    portbar_word_store(report, epoch);
}
</%def>
<%def name="report_count()">
/* Reports how many groups take part. Caller: the leader that closed the poll. */
static inline void portbar_report_count(volatile global uint *state, uint epoch, uint count)
{
    portbar_word_store(state + PORTBAR_STATE_REPORTS + (epoch % PORTBAR_REPORTS) * PORTBAR_REPORT_WORDS + 2, count);
}
</%def>
<%def name="report_fault()">
/* Sets the abort flag that lets every group leave, and tells the host once. A flag that no group of this launch has set comes from
   elsewhere, and the host learns that, too. Caller: a leader whose wait reached the limit, or one that found the flag set. */
static inline void portbar_report_fault(volatile global uint *state, uint epoch, uint status, uint arrived, uint group)
{
    volatile global uint *report = state + PORTBAR_STATE_REPORTS + (epoch % PORTBAR_REPORTS) * PORTBAR_REPORT_WORDS;
    if (portbar_word_exchange(state + PORTBAR_STATE_ABORT, 1u) != 0u) {
        /* Whoever set it in this launch stores another status, before this or after. */
        (void)portbar_word_compare_exchange(report + 1, PORTBAR_STATUS_OPEN, PORTBAR_STATUS_OVERWRITTEN);
    } else {
        portbar_word_store(report + 3, arrived);
        portbar_word_store(report + 4, group);
        portbar_word_store(report + 1, status);
        portbar_word_store(report, epoch);
    }
}
</%def>
<%def name="report_lost()">
/* Tells the host that a group left during discovery. It does not ask the abort flag first, which may still be that of the launch before;
   groups that are lost together all say the same. Caller: a leader. */
static inline void portbar_report_lost(volatile global uint *state, uint epoch, uint group)
{
    volatile global uint *report = state + PORTBAR_STATE_REPORTS + (epoch % PORTBAR_REPORTS) * PORTBAR_REPORT_WORDS;
    (void)portbar_word_exchange(state + PORTBAR_STATE_ABORT, 1u);
    portbar_word_store(report + 3, 0u);
    portbar_word_store(report + 4, group);
    portbar_word_store(report + 1, PORTBAR_STATUS_LOST);
    portbar_word_store(report, epoch);
}
</%def>
<%def name="await_publication()">
/* Waits until somebody has closed the poll; the number of participating groups, or 0 when the spin limit was reached. In that case the
   poll is closed for good: either it was before, so that the launch has begun and has a report to leave word in, or no group takes
   part, and those that wait learn it from the same word. Acquire order. Caller: the leader of a group that polled. */
static inline uint portbar_await_publication(volatile global uint *state, volatile global uint *poll, uint4 launch, uint tag)
{
    volatile global uint *word = state + PORTBAR_STATE_PUBLISHED;
    const uint limit = PORTBAR_DISCOVERY_LIMIT(launch);
    for (uint round = 0; round < limit; ++round) {
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, launch.w); i != 0u; --i) {
            const uint seen = portbar_word_load_acquire(word);
            if (PORTBAR_TAG_OF(launch.x, seen) == tag)
                return PORTBAR_COUNT_OF(launch.x, seen);
% if rest_ns:
            /* Thousands of groups that poll one word keep group 0 from polling the others. */
            const uint nanoseconds = min((uint)(get_num_groups(0) * get_num_groups(1) * get_num_groups(2)) / 2u, 2000u);
            __asm__ volatile("nanosleep.u32 %0;" :: "r"(nanoseconds));
% endif
        }
        portbar_yield(round);
    }
    if ((portbar_word_or(poll, PORTBAR_POLL_CLOSED) & PORTBAR_POLL_CLOSED) == 0u)
        portbar_word_store_release(word, tag);
    (void)portbar_word_load_acquire(poll);
    return 0u;
}
</%def>
