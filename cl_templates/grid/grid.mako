## -*- coding: utf-8 -*-
## The grid: the work-groups that take part in a launch, and how a kernel enters it.
<%!
    from textwrap import indent
%>
<%def name="grid_type()">
${defines("portbar_grid")}
/* The participating work-groups of this launch, as seen by one work-item. Fields are portbar's own. */
typedef struct {
    volatile global uint *state;
    local uint *shared;
    uint group_id;
    uint num_groups;
    uint epoch;
% if reached("capacity"):
    uint capacity;
% endif
    uint limit;
% if reached("run_memory"):
    local void *run_memory;
% endif
% if counts_in_slots and reached("first_slot"):
    uint first_slot;
% if shards > 1:
    uint second_slot;
% endif
% endif
${own("grid_fields")}\
} portbar_grid;

${defines("PORTBAR_GRID_PARAM")}
/* First parameter of every kernel that uses a grid; the Python runtime fills both in. */
#define PORTBAR_GRID_PARAM volatile global uint *portbar_grid_param, const uint4 portbar_grid_launch

${defines("PORTBAR_ENTER")}
/* First statement of every kernel with a grid, in its outermost block. Discovers which groups are resident at once,
   declares `grid`, returns in others. Caller: all work-items. Cost: an atomic and a wait per group, barriers. */
#define PORTBAR_ENTER(grid)                                      ${"\\"}
    local uint portbar_entered_once[PORTBAR_SHARED_WORDS];       ${"\\"}
    portbar_grid grid;                                           ${"\\"}
% if reached("PORTBAR_ENTERED_GRID"):
    const portbar_grid *const portbar_entered_grid = &grid;      ${"\\"}
    (void)portbar_entered_grid;                                  ${"\\"}
% endif
    if (!portbar_enter(&grid, portbar_grid_param, portbar_grid_launch, portbar_entered_once)) return
</%def>
<%def name="takes_part()">\
    uint count = 1u;
    uint id = portbar_is_smaller() ? PORTBAR_SURPLUS : portbar_discover(state, launch, &count);
    if (id != PORTBAR_SURPLUS && count == 0u) {
        portbar_report_fault(state, launch.x & PORTBAR_EPOCH_MASK, PORTBAR_STATUS_LOST, 0u, id, 0u);
        id = PORTBAR_SURPLUS;
    }
    shared[PORTBAR_SHARED_ID] = id;
    shared[PORTBAR_SHARED_COUNT] = count;
    shared[PORTBAR_SHARED_OK] = 1u;
% if counts_in_slots and reached("first_slot"):
    shared[PORTBAR_SHARED_PLACE] = PORTBAR_PLACE_DEFAULT;
% if placing:
    if (id != PORTBAR_SURPLUS)
        shared[PORTBAR_SHARED_PLACE] = portbar_place(state, id, count, launch.w);
% endif
% endif
    shared[PORTBAR_SHARED_TARGET] = 0u;
% if reached("portbar_device_token"):
    shared[PORTBAR_SHARED_SPLIT] = 0u;
% endif
% if reached("portbar_claim"):
    shared[PORTBAR_SHARED_LOOP_END] = 0u;
    shared[PORTBAR_SHARED_KEPT] = 0u;
% endif
% if reached("portbar_meet_votes"):
    for (uint i = PORTBAR_SHARED_VOTE_PHASE; i < PORTBAR_SHARED_VOTED; ++i)
        shared[i] = 0u;
% endif
% for name, function in zeroed:
% if reached(function):
    shared[PORTBAR_SHARED_${name}] = 0u;
% endif
% endfor
</%def>
<%def name="enter()">
% if leads_apart:
${defines("portbar_enter_leading")}
/* Takes part in the discovery, and leaves its result for the work-group. Caller: a leader. */
${leading} void portbar_enter_leading(volatile global uint *state, uint4 launch, local uint *shared)
{
${takes_part()}\
}

% endif
${defines("portbar_enter")}
/* Whether a work-group takes part. Order: stores of the host are visible. Cost: one discovery. */
static inline bool portbar_enter(portbar_grid *grid, volatile global uint *state, uint4 launch, local uint *shared)
{
${own("enter_beyond")}\
${own("enter_first")}\
% if leads_apart:
    if (PORTBAR_LEADER(grid))
        portbar_enter_leading(state, launch, shared);
% else:
    if (PORTBAR_LEADER(grid)) {
${indent(capture(takes_part), "    ")}\
    }
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
${own("enter_shared")}\
    grid->state = state;
    grid->shared = shared;
    grid->group_id = shared[PORTBAR_SHARED_ID];
    grid->num_groups = shared[PORTBAR_SHARED_COUNT];
    grid->epoch = launch.x & PORTBAR_EPOCH_MASK;
% if reached("capacity"):
    grid->capacity = PORTBAR_CAPACITY_OF(launch.x);
% endif
    grid->limit = launch.w;
% if counts_in_slots and reached("first_slot"):
    const uint place = shared[PORTBAR_SHARED_PLACE];
    grid->first_slot = PORTBAR_SLOT_AT(PORTBAR_PLACE_FIRST(place));
% if shards > 1:
    grid->second_slot = PORTBAR_SLOT_AT(PORTBAR_PLACE_SECOND(place));
% endif
% endif
${own("enter_last")}\
    return grid->group_id != PORTBAR_SURPLUS && (launch.x & PORTBAR_DRY_RUN) == 0u;
}
</%def>
<%def name="ids()">
${defines("portbar_group_id")}
/* Linear id of the work-group among the participating ones, from 0. Caller: any work-item. Cost: none. */
static inline uint portbar_group_id(const portbar_grid *grid)
{
    return grid->group_id;
}

${defines("portbar_num_groups")}
/* Number of participating work-groups, the same in all. Caller: any work-item. Cost: none. */
static inline uint portbar_num_groups(const portbar_grid *grid)
{
    return ${stride('grid->num_groups')};
}

${defines("portbar_global_id")}
/* Linear id of the work-item among all of the grid, from 0. Caller: any work-item. Cost: little. */
static inline uint portbar_global_id(const portbar_grid *grid)
{
    return grid->group_id * portbar_local_linear_size() + PORTBAR_ITEM(grid);
}

${defines("portbar_global_size")}
/* Work-items of the grid: the stride of a grid-stride loop. Caller: any work-item. Cost: little. */
static inline uint portbar_global_size(const portbar_grid *grid)
{
    return ${stride('grid->num_groups * portbar_local_linear_size()')};
}
</%def>
<%def name="ok()">
${defines("portbar_device_ok")}
/* Whether every barrier of this launch that this work-group has been in has held. Caller: any work-item. Result: the
   same in all work-items of the group between two calls of barriers. Cost: a load from local memory. */
static inline bool portbar_device_ok(const portbar_grid *grid)
{
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="atomic_waits()">
${defines("portbar_entered_grid", "PORTBAR_ENTERED_GRID")}
/* The grid that an atomic wait of portbar/atomics.h watches: the kernel's after PORTBAR_ENTER, elsewhere "no grid". */
enum { portbar_entered_grid = 0 };
#define PORTBAR_ENTERED_GRID ((const portbar_grid *)portbar_entered_grid)
${defines("portbar_watched_abort")}
/* The abort flag that a wait looks at, 0 without a grid. */
static inline volatile global uint *portbar_watched_abort(const portbar_grid *grid)
{
    return grid != 0 ? grid->state + PORTBAR_STATE_ABORT : 0;
}
${defines("portbar_watched_rounds")}
/* Rounds of polls after which a wait gives up. */
static inline uint portbar_watched_rounds(const portbar_grid *grid, uint otherwise)
{
    return grid != 0 ? grid->limit : otherwise;
}
${defines("portbar_reported_wait")}
/* Reports a wait that reached the limit, once per launch, and returns its outcome. Caller: any work-item. */
static inline uint portbar_reported_wait(const portbar_grid *grid, uint outcome)
{
    if (grid != 0 && outcome == PORTBAR_WAIT_LIMIT) {
        portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_WAIT, 0u, grid->group_id, 0u);
        return PORTBAR_WAIT_DRAIN;
    }
    if (grid != 0 && outcome == PORTBAR_WAIT_DRAIN)
        (void)portbar_draining(grid);
    return outcome;
}
${defines("PORTBAR_WATCH", "PORTBAR_REPORTED")}
#undef PORTBAR_WATCH
#undef PORTBAR_REPORTED
#define PORTBAR_WATCH <%text>\</%text>
    portbar_watched_abort(PORTBAR_ENTERED_GRID), portbar_watched_rounds(PORTBAR_ENTERED_GRID, PORTBAR_LONE_ROUNDS)
#define PORTBAR_REPORTED(outcome) PORTBAR_LONE_REPORTED(portbar_reported_wait(PORTBAR_ENTERED_GRID, outcome))
${defines("portbar_device_atomic_wait_explicit", "portbar_device_atomic_wait")}
/* portbar_atomic_wait for functions that have the grid by its address. Needs portbar/atomics.h. Caller: any work-item.
   Order: that of the arguments, when true; sequentially consistent at device scope without. Result: false if the spin
   limit was reached, which is reported to the host, or in a launch that is draining. Cost: a load per poll. */
#define portbar_device_atomic_wait_explicit(grid, p, old, order, scope) <%text>\</%text>
    (portbar_reported_wait(grid, portbar_wait_watched(portbar_watched_abort(grid), <%text>\</%text>
                                                  portbar_watched_rounds(grid, 0u), <%text>\</%text>
                                                  p, old, order, scope)) <%text>\</%text>
     == PORTBAR_WAIT_REACHED)
#define portbar_device_atomic_wait(grid, p, old) <%text>\</%text>
    portbar_device_atomic_wait_explicit(grid, p, old, memory_order_seq_cst, memory_scope_device)
</%def>
