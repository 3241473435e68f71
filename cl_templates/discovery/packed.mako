## -*- coding: utf-8 -*-
## Occupancy discovery in one lock-free word: poll by fetch-and-add, close by fetch-and-or.
<%def name="poll_heal()">
/* Called by a leader that found the poll word unprepared, which happens when the launch before this one was enqueued and
   never ran. Whoever wins the exchange opens the poll and is group 0; the others poll again. Bounded by `limit`. */
static inline uint portbar_poll_heal(volatile global uint *word, uint tag, uint limit)
{
    for (uint tries = 0; tries < limit; ++tries) {
        const uint found = portbar_word_load(word);
        if (PORTBAR_TAG_OF(found) == tag)
            return portbar_word_add(word, 1u);
        if (portbar_word_compare_exchange(word, found, (tag << 24) | 1u) == found)
            return tag << 24;
    }
    return PORTBAR_POLL_CLOSED;
}
</%def>
<%def name="discover()">
/* Occupancy discovery after Sorensen et al., "Portable inter-workgroup barrier synchronisation for GPUs" (OOPSLA 2016), with
   one word in place of the mutex: bit 31 is "closed", bits 24 to 30 the launch's tag, the rest counts the groups that polled.
   Group 0 keeps the poll open until `expected` groups came, or until nobody new came for `patience` rounds of polls: that
   replaces the fairness of the published ticket lock.
   Caller: one work-item of each group. Result: the group's id, or PORTBAR_SURPLUS; `*count` is valid unless surplus.
   Order: what group 0 wrote before it published is visible to every participant. Cost: one atomic and one wait. */
static inline uint portbar_discover(volatile global uint *state, uint4 launch, uint *count)
{
    const uint epoch = launch.x & PORTBAR_EPOCH_MASK;
    const uint tag = epoch & 0x7fu;
    const uint limit = launch.w;
    volatile global uint *word = state + ((epoch & 1u) ? PORTBAR_STATE_POLL_ODD : PORTBAR_STATE_POLL_EVEN);
    uint old = portbar_word_add_release(word, 1u);
    if (PORTBAR_TAG_OF(old) != tag)
        old = portbar_poll_heal(word, tag, limit);
    if (old & PORTBAR_POLL_CLOSED)
        return PORTBAR_SURPLUS;

    const uint id = old & PORTBAR_COUNT_MASK;
    if (id == 0u) {
        portbar_state_prepare(state, launch);
        portbar_word_store(state + ((epoch & 1u) ? PORTBAR_STATE_POLL_EVEN : PORTBAR_STATE_POLL_ODD),
                           ((epoch + 1u) & 0x7fu) << 24);
        portbar_report_open(state, epoch);
        const uint expected = launch.y;
        uint seen = 1u, idle = 0u;
        while (seen < expected && idle < launch.z) {
            uint now = seen;
            for (uint i = 0; i < PORTBAR_POLLS && now < expected; ++i)
                now = portbar_word_load(word) & PORTBAR_COUNT_MASK;
            idle = now == seen ? idle + 1u : 0u;
            seen = now;
            portbar_yield(idle);
        }
        *count = portbar_word_or(word, PORTBAR_POLL_CLOSED) & PORTBAR_COUNT_MASK;
        portbar_report_count(state, epoch, *count);
        portbar_word_store_release(state + PORTBAR_STATE_PUBLISHED, (tag << 24) | *count);
        return 0u;
    }
    *count = portbar_await_publication(state, tag, limit);
    return id;
}
</%def>
