## -*- coding: utf-8 -*-
## The published discovery protocol under one mutex, for the survey and for comparison; each lock has a template.
<%def name="discover()">
${defines("portbar_discover")}
/* Occupancy discovery as published by Sorensen et al. (OOPSLA 2016): a polling phase and a closing phase, both under
   one lock. The first group that enters the closing phase closes the poll; with patience it first waits until
   `expected` groups have arrived, or until no group has arrived for `patience` rounds of polls. The first group of a
   launch opens the poll, so that nothing has to be cleared between launches. Caller: one work-item of each group.
   Result: the group's id, or PORTBAR_SURPLUS; `*count` is valid unless surplus, and 0 if the lock was not acquired
   within the limit. Order: the lock's. Cost: two lock acquisitions per group, O(groups^2) in all. */
${once} uint portbar_discover(volatile global uint *state, uint4 launch, uint *count)
{
    const uint epoch = launch.x & PORTBAR_EPOCH_MASK;
    const uint limit = PORTBAR_DISCOVERY_LIMIT(launch);
    volatile global uint *opened = state + PORTBAR_STATE_POLL_EPOCH;
    volatile global uint *counter = state + PORTBAR_STATE_POLL_COUNT;
    volatile global uint *closed = state + PORTBAR_STATE_POLL_DONE;

    *count = 0u;
    if (!portbar_discovery_lock(state, limit))
        return 0u;
    if (portbar_word_load(opened) != epoch) {
        portbar_state_prepare(state, launch);
        portbar_word_store(counter, 0u);
        portbar_word_store(closed, 0u);
        portbar_word_store(opened, epoch);
    }
    const bool late = portbar_word_load(closed) != 0u;
    const uint id = portbar_word_load(counter);
    if (!late)
        portbar_word_store(counter, id + 1u);
    portbar_discovery_unlock(state);
    if (late)
        return PORTBAR_SURPLUS;

    uint seen = id + 1u, idle = 0u;
    while (seen < launch.y && idle < launch.z && portbar_word_load(closed) == 0u) {
        uint now = seen;
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, launch.w); i != 0u && now < launch.y; --i)
            now = ${relaxed_poll}(counter);
        idle = now == seen ? idle + 1u : 0u;
        seen = now;
        portbar_yield(idle);
    }
    if (!portbar_discovery_lock(state, limit))
        return id;
    if (portbar_word_load(closed) == 0u) {
        portbar_word_store(closed, 1u);
        portbar_word_store(PORTBAR_REPORT(state, epoch) + 2, portbar_word_load(counter));
    }
    *count = portbar_word_load(counter);
    portbar_discovery_unlock(state);
    return id;
}
</%def>
