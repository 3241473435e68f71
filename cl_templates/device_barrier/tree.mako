## -*- coding: utf-8 -*-
## Two levels of counters: the last group of a node arrives at the root. For group counts at which one line saturates.
## Where fences are cheap the last group of all raises flags, so that polls of one line do not saturate it either.
<%def name="prepare()">
    portbar_word_store(state + PORTBAR_STATE_COUNTER, 0u);
    const uint launched = (uint)(get_num_groups(0) * get_num_groups(1) * get_num_groups(2));
    volatile global uint *node = state + PORTBAR_STATE_NODES(PORTBAR_CAPACITY_OF(launch.x));
    for (uint i = 0; i < launched; i += PORTBAR_TREE_FAN, node += PORTBAR_LINE)
        portbar_word_store(node, 0u);
% if release_flagged:
    for (uint flag = 0; flag < PORTBAR_RELEASE_FLAGS; ++flag)
        portbar_word_store(state + PORTBAR_STATE_RELEASED + flag * PORTBAR_LINE, 0u);
% endif
</%def>
<%def name="device_barrier()">
${defines("portbar_device_barrier")}
/* By one counter for each PORTBAR_TREE_FAN groups and a root, which all poll, or flags that the last one raises. Cost:
   two work-group barriers, one atomic per group and one per node, and polls of one word. */
static inline bool portbar_device_barrier(portbar_grid *grid)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid) && grid->shared[PORTBAR_SHARED_OK] != 0u) {
        const uint count = grid->shared[PORTBAR_SHARED_COUNT];
        const uint index = grid->shared[PORTBAR_SHARED_ID] / PORTBAR_TREE_FAN;
        const uint members = min(PORTBAR_TREE_FAN, count - index * PORTBAR_TREE_FAN);
        const uint nodes = (count + PORTBAR_TREE_FAN - 1u) / PORTBAR_TREE_FAN;
        const uint phase = grid->shared[PORTBAR_SHARED_TARGET] + 1u;
        grid->shared[PORTBAR_SHARED_TARGET] = phase;
        volatile global uint *root = grid->state + PORTBAR_STATE_COUNTER;
        volatile global uint *node = grid->state + PORTBAR_STATE_NODES(grid->capacity) + index * PORTBAR_LINE;
        bool last = false;
        const uint lacking = phase * members - portbar_word_arrive(node) - 1u;
        portbar_check_arrival(grid, lacking, members);
        if (lacking == 0u) {
% if release_flagged:
            last = portbar_word_arrive_chained(root) + 1u == phase * nodes;
% else:
            (void)portbar_word_load_acquire(node);
            const uint nodes_lacking = phase * nodes - portbar_word_arrive(root) - 1u;
            portbar_check_arrival(grid, nodes_lacking, nodes);
            last = nodes_lacking == 0u;
% endif
        }
% if release_flagged:
        volatile global uint *released = grid->state + PORTBAR_STATE_RELEASED;
        if (last) {
            portbar_word_fence();
            for (uint flag = 0; flag < PORTBAR_RELEASE_FLAGS; ++flag)
                portbar_word_store(released + flag * PORTBAR_LINE, phase * nodes);
        } else if (!portbar_wait_root(grid, released + grid->group_id % PORTBAR_RELEASE_FLAGS * PORTBAR_LINE, phase))
% else:
        if (last)
            (void)portbar_word_load_acquire(root);
        else if (!portbar_wait_root(grid, root, phase))
% endif
            grid->shared[PORTBAR_SHARED_OK] = 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="wait_root()">
${defines("portbar_wait_root")}
/* Waits in a phase for the root, or for a flag that follows it; when it gives up it reports how many groups had
   arrived, which only the nodes know. True when all had. Caller: a leader. */
static inline bool portbar_wait_root(const portbar_grid *grid, volatile global uint *root, uint phase)
{
    const uint nodes = (grid->num_groups + PORTBAR_TREE_FAN - 1u) / PORTBAR_TREE_FAN;
    const uint outcome = portbar_wait_word(grid, root, phase * nodes);
    if (outcome == PORTBAR_WAIT_LIMIT) {
        volatile global uint *node = grid->state + PORTBAR_STATE_NODES(grid->capacity);
        uint arrived = 0u;
        for (uint index = 0; index < nodes; ++index, node += PORTBAR_LINE) {
            const uint members = min(PORTBAR_TREE_FAN, grid->num_groups - index * PORTBAR_TREE_FAN);
            /* Since the last poll others may have come, gone, and arrived once more. */
            const uint beyond = ${relaxed_poll}(node) - phase * members;
            arrived += beyond < members ? members : members - min(0u - beyond, members);
        }
        portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT, arrived, grid->group_id, 0u);
    }
    return outcome == PORTBAR_WAIT_REACHED;
}
</%def>
