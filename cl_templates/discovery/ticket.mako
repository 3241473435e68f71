## -*- coding: utf-8 -*-
## The lock of the published discovery protocol, by tickets.
<%def name="lock()">
${defines("portbar_discovery_lock")}
/* Ticket lock, as published; false when `limit` rounds of polls did not suffice. One work-item a group. */
${once} bool portbar_discovery_lock(volatile global uint *state, uint limit)
{
    volatile global uint *serving = state + PORTBAR_STATE_LOCK_SERVING;
    const uint ticket = portbar_word_add(state + PORTBAR_STATE_LOCK_NEXT, 1u);
    for (uint round = 0; round < limit; ++round) {
        bool served = false;
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, limit); i != 0u && !served; --i)
            served = ${poll}(serving) == ticket;
        if (served) {
% if not acquire_polls:
            portbar_word_acquire(serving);
% endif
            return true;
        }
        portbar_yield(round);
    }
    return false;
}

${defines("portbar_discovery_unlock")}
/* Gives the lock to the next group; release order. */
${once} void portbar_discovery_unlock(volatile global uint *state)
{
    volatile global uint *serving = state + PORTBAR_STATE_LOCK_SERVING;
    portbar_word_store_release(serving, portbar_word_load(serving) + 1u);
}
</%def>
