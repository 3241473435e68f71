## -*- coding: utf-8 -*-
## The lock of the published discovery protocol, by exchanges.
<%def name="lock()">
${defines("portbar_discovery_lock")}
/* Spin lock by exchange, as published; false when `limit` rounds of polls did not suffice. One work-item a group. */
${once} bool portbar_discovery_lock(volatile global uint *state, uint limit)
{
    for (uint round = 0; round < limit; ++round) {
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, limit); i != 0u; --i)
            if (portbar_word_exchange(state + PORTBAR_STATE_LOCK_HELD, 1u) == 0u)
                return true;
        portbar_yield(round);
    }
    return false;
}

${defines("portbar_discovery_unlock")}
/* Gives the lock to the next group; release order. */
${once} void portbar_discovery_unlock(volatile global uint *state)
{
    portbar_word_store_release(state + PORTBAR_STATE_LOCK_HELD, 0u);
}
</%def>
