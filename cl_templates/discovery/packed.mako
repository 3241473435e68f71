## -*- coding: utf-8 -*-
## Occupancy discovery in one lock-free word: poll by fetch-and-add, close by fetch-and-or.
<%def name="await_count()">
${defines("portbar_await_count")}
/* The number of participating groups, once the poll is closed; 0 at the limit, which closes it. Acquire. A leader's. */
${once} uint portbar_await_count(volatile global uint *state, volatile global uint *poll, uint4 launch, uint tag)
{
    volatile global uint *word = state + PORTBAR_STATE_PUBLISHED;
    for (uint round = 0; round < PORTBAR_DISCOVERY_LIMIT(launch); ++round) {
        uint seen = ~tag;
% if rest_ns:
## Thousands of groups that poll one word keep group 0 from polling the others.
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, launch.w); i != 0u && PORTBAR_TAG_OF(launch.x, seen) != tag; --i) {
            seen = ${poll}(word);
            if (PORTBAR_TAG_OF(launch.x, seen) != tag)
                portbar_sleep(min(launch.y / 2u, 2000u));
        }
% else:
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, launch.w); i != 0u && PORTBAR_TAG_OF(launch.x, seen) != tag; --i)
            seen = ${poll}(word);
% endif
% if acquire_polls:
        if (PORTBAR_TAG_OF(launch.x, seen) == tag)
            return PORTBAR_COUNT_OF(launch.x, seen);
% else:
        if (PORTBAR_TAG_OF(launch.x, seen) == tag) {
            portbar_word_acquire(word);
            return PORTBAR_COUNT_OF(launch.x, seen);
        }
% endif
        portbar_yield(round);
    }
    if ((portbar_word_or(poll, PORTBAR_POLL_CLOSED) & PORTBAR_POLL_CLOSED) == 0u)
        portbar_word_store_release(word, tag);
    (void)portbar_word_load_acquire(poll);
    return 0u;
}
</%def>
<%def name="poll_heal()">
${defines("portbar_poll_heal")}
/* Polls again where the launch before never ran and left the word unprepared: who wins the exchange is group 0. */
${once} uint portbar_poll_heal(volatile global uint *word, uint4 launch, uint tag)
{
    for (uint tries = 0; tries < PORTBAR_DISCOVERY_LIMIT(launch); ++tries) {
        const uint found = portbar_word_load(word);
        if (PORTBAR_TAG_OF(launch.x, found) == tag)
            return portbar_word_add_relaxed(word, 1u);
        if (portbar_word_compare_exchange(word, found, tag | 1u) == found)
            return tag;
    }
    return PORTBAR_POLL_CLOSED;
}
</%def>
<%def name="discover()">
${defines("portbar_discover")}
/* Occupancy discovery after Sorensen et al. (OOPSLA 2016), without a mutex. Group 0 prepares the state and keeps the
   poll open until the expected groups came, or none for the launch's patience; the last that is expected closes it.
   Caller: a leader. Result: the group's id, or PORTBAR_SURPLUS; `*count` is valid unless surplus, and 0 at the limit.
   Order: what group 0 prepared is visible to every participant. Cost: one atomic, one wait. */
${once} uint portbar_discover(volatile global uint *state, uint4 launch, uint *count)
{
    const uint epoch = launch.x & PORTBAR_EPOCH_MASK, tag = PORTBAR_TAG(launch.x, epoch);
    volatile global uint *word = state + ((epoch & 1u) ? PORTBAR_STATE_POLL_ODD : PORTBAR_STATE_POLL_EVEN);
## A group has written nothing yet that others could rely on.
    uint old = portbar_word_add_relaxed(word, 1u);
    if (PORTBAR_TAG_OF(launch.x, old) != tag)
        old = portbar_poll_heal(word, launch, tag);
    if (old & PORTBAR_POLL_CLOSED)
        return PORTBAR_SURPLUS;
    const uint id = PORTBAR_COUNT_OF(launch.x, old);
    bool closes = id + 1u == launch.y && (old & PORTBAR_POLL_READY);
    if (id == 0u) {
        portbar_state_prepare(state, launch);
        portbar_word_store(state + ((epoch & 1u) ? PORTBAR_STATE_POLL_EVEN : PORTBAR_STATE_POLL_ODD),
                           PORTBAR_TAG(launch.x, epoch + 1u));
        uint now = portbar_word_or(word, PORTBAR_POLL_READY);
        uint seen = PORTBAR_COUNT_OF(launch.x, now), idle = 0u;
        while (seen < launch.y && idle < launch.z && (now & PORTBAR_POLL_CLOSED) == 0u) {
            const uint before = seen;
            for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, launch.w); i != 0u && seen < launch.y; --i) {
                now = ${relaxed_poll}(word);
                seen = PORTBAR_COUNT_OF(launch.x, now);
            }
            idle = seen == before ? idle + 1u : 0u;
            portbar_yield(idle);
        }
        closes = (now & PORTBAR_POLL_CLOSED) == 0u;
    } else if (closes)
        (void)portbar_word_load_acquire(word);
## One place to wait: compilers would copy the loop to each.
    const uint found = closes ? portbar_word_or(word, PORTBAR_POLL_CLOSED) : PORTBAR_POLL_CLOSED;
    if ((found & PORTBAR_POLL_CLOSED) != 0u) {
        *count = portbar_await_count(state, word, launch, tag);
    } else {
        *count = PORTBAR_COUNT_OF(launch.x, found);
        portbar_word_store(PORTBAR_REPORT(state, epoch) + 2, *count);
        portbar_word_store_release(state + PORTBAR_STATE_PUBLISHED, tag | *count);
    }
    return id;
}
</%def>
