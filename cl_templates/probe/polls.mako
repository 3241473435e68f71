## -*- coding: utf-8 -*-
## How fast one work-item polls, in the same loop as barriers.
<%def name="polls()">
/* Waits `rounds` rounds for a word that never changes. Run by one work-item. */
kernel void portbar_probe_polls(volatile global uint *state, uint rounds)
{
    portbar_grid grid;
    grid.state = state;
    grid.shared = 0;
    grid.group_id = 0u;
    grid.num_groups = 1u;
    grid.epoch = 1u;
    grid.capacity = 1u;
    grid.limit = rounds;
    (void)portbar_wait_word(&grid, state + PORTBAR_STATE_COUNTER, 1u);
}
</%def>
