## -*- coding: utf-8 -*-
## The lock of the published discovery protocol, by tickets.
<%def name="lock()">
/* Ticket lock, as published; false when `limit` rounds of polls did not suffice. One work-item a group. */
static inline bool portbar_discovery_lock(volatile global uint *state, uint limit)
{
    const uint ticket = portbar_word_add(state + PORTBAR_STATE_LOCK_NEXT, 1u);
    for (uint round = 0; round < limit; ++round) {
        for (uint i = 0; i < PORTBAR_POLLS; ++i)
            if (portbar_word_load_acquire(state + PORTBAR_STATE_LOCK_SERVING) == ticket)
                return true;
        portbar_yield(round);
    }
    return false;
}

/* Gives the lock to the next group; release order. */
static inline void portbar_discovery_unlock(volatile global uint *state)
{
    volatile global uint *serving = state + PORTBAR_STATE_LOCK_SERVING;
    portbar_word_store_release(serving, portbar_word_load(serving) + 1u);
}
</%def>
