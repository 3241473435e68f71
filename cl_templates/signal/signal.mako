## -*- coding: utf-8 -*-
## Signals: counters in global memory by which one work-group hands something to others of its grid. NVSHMEM's signal
## operations are the model: add, set, wait until at least, test.
<%def name="types()">
${defines("portbar_signal", "PORTBAR_SIGNAL_MAX")}
/* A counter that only grows, free to lie anywhere in global memory that starts at 0. Its values are at most
   PORTBAR_SIGNAL_MAX, so that an addition that goes beyond shows it before the word can wrap. */
typedef struct {
    uint value;
} portbar_signal;
#define PORTBAR_SIGNAL_MAX 0x7fffffffu
</%def>
<%def name="report()">
${defines("portbar_report_signal")}
/* Reports the value of a signal and the requested one. A function, since macros that use it are in authors' text. */
static inline void portbar_report_signal(const portbar_grid *grid, uint status, uint seen, uint asked)
{
    portbar_report_fault(grid->state, grid->epoch, status, seen, grid->group_id, asked);
}
</%def>
<%def name="add()">
${defines("portbar_signal_add")}
/* Adds `n` to a signal. Order: release at device scope, of what the caller wrote or has seen. Caller: any work-item;
   others may add to the same signal. A sum beyond PORTBAR_SIGNAL_MAX is a fault of the launch. Cost: an atomic
   addition. */
static inline void portbar_signal_add(const portbar_grid *grid, volatile global portbar_signal *signal, uint n)
{
    const uint before = portbar_word_add_release(&signal->value, n);
    if (((before | n | (before + n)) & ~PORTBAR_SIGNAL_MAX) != 0u)
        portbar_report_signal(grid, PORTBAR_STATUS_SIGNAL_RANGE, before, n);
}

${defines("portbar_work_group_signal_add")}
/* Adds `n` to a signal once, after all that the work-group has done. Order: release at device scope, of what any
   work-item of the group wrote. Caller: all work-items of the group, in uniform control flow. Cost: one work-group
   barrier, an atomic addition. */
static inline void
portbar_work_group_signal_add(const portbar_grid *grid, volatile global portbar_signal *signal, uint n)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid))
        portbar_signal_add(grid, signal, n);
}
</%def>
<%def name="set()">
${defines("portbar_signal_set")}
/* Sets a signal to `value`. Order: release at device scope, of what the caller wrote or has seen. Caller: one
   work-item, the only one that writes to the signal meanwhile; never to less than it was. A value beyond
   PORTBAR_SIGNAL_MAX is a fault of the launch. Cost: a store, which returns nothing. */
static inline void portbar_signal_set(const portbar_grid *grid, volatile global portbar_signal *signal, uint value)
{
    if (value > PORTBAR_SIGNAL_MAX)
        portbar_report_signal(grid, PORTBAR_STATUS_SIGNAL_RANGE, 0u, value);
    else
        portbar_word_store_release(&signal->value, value);
}

${defines("portbar_work_group_signal_set")}
/* Sets a signal to `value` once, after all that the work-group has done. Order: release at device scope, of what any
   work-item of the group wrote. Caller: all work-items of the group, in uniform control flow, with one value; no other
   group writes to the signal meanwhile. Cost: one work-group barrier, a store. */
static inline void
portbar_work_group_signal_set(const portbar_grid *grid, volatile global portbar_signal *signal, uint value)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid))
        portbar_signal_set(grid, signal, value);
}
</%def>
<%def name="reached()">
${defines("portbar_signal_is_fine")}
/* Whether a value that came to what was asked is one that a signal can have; reports it otherwise. */
static inline bool portbar_signal_is_fine(const portbar_grid *grid, uint seen, uint asked)
{
    if (seen <= PORTBAR_SIGNAL_MAX)
        return true;
    portbar_report_signal(grid, PORTBAR_STATUS_SIGNAL_RANGE, seen, asked);
    return false;
}
</%def>
<%def name="test()">
${defines("portbar_signal_test")}
/* Whether a signal has come to at least `value`: one look. Order: acquire at device scope, when true. Caller: any
   work-item. Cost: a load. A loop of tests has no limit: let portbar_signal_wait_until_at_least or
   portbar_device_wait_until do it. */
static inline bool portbar_signal_test(const portbar_grid *grid, volatile global portbar_signal *signal, uint value)
{
    const uint seen = portbar_word_load_acquire(&signal->value);
    return seen >= value && portbar_signal_is_fine(grid, seen, value);
}
</%def>
<%def name="wait()">
${defines("portbar_signal_wait_until_at_least")}
/* Waits until a signal is at least `value`; for 0 it returns at once. Order: acquire at device scope, if true: stores
   before the signals that raised it are visible. Caller: any work-item of a participating work-group that waits for
   none of its own group. Result: false at the grid's spin limit, which is reported to the host, or in a launch that is
   draining. Cost: polls, and one acquire. */
static inline bool
portbar_signal_wait_until_at_least(const portbar_grid *grid, volatile global portbar_signal *signal, uint value)
{
    uint seen = 0u;
    for (uint round = 0; round < grid->limit; ++round) {
        bool reached = false;
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); i != 0u && !reached; --i) {
            seen = ${poll}(&signal->value);
            reached = seen >= value;
        }
        if (reached) {
% if not acquire_polls:
            portbar_word_acquire(&signal->value);
% endif
            return portbar_signal_is_fine(grid, seen, value);
        }
        if (portbar_draining(grid))
            return false;
        portbar_yield(round);
    }
    portbar_report_signal(grid, PORTBAR_STATUS_SIGNAL, seen, value);
    return false;
}

${defines("portbar_work_group_signal_wait_until_at_least")}
/* portbar_signal_wait_until_at_least for a whole work-group, of which one work-item polls. Drivers that take no
   barrier in a branch need the call from every group: one that waits for nothing gives the value 0. Order: acquire at
   device scope, when true, for all work-items of the group. Caller: all work-items of the group, in uniform control
   flow, with one signal and one value. Result: the same in every work-item; after a false, further such waits and
   barriers of this group return false at once. Cost: two work-group barriers, and polls by one work-item. */
static inline bool
portbar_work_group_signal_wait_until_at_least(portbar_grid *grid, volatile global portbar_signal *signal,
                                              uint value)
{
    /* Other work-items may still read the answer of an earlier barrier, which a fault overwrites. */
    barrier(CLK_LOCAL_MEM_FENCE);
    if (PORTBAR_LEADS(grid) && !portbar_signal_wait_until_at_least(grid, signal, value))
        PORTBAR_GIVE_UP(grid);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="condition()">
${defines("portbar_device_wait_until")}
/* Waits until an expression is true, which reads what other work-groups write by relaxed atomic loads, and is evaluated
   again for each poll. Order: acquire at device scope, when true. Caller: any work-item of a participating work-group
   that waits for none of its own group. Result: false at the grid's spin limit, which is reported to the host, or in a
   launch that is draining. Cost: the expression at each poll, and one fence. */
#define portbar_device_wait_until(grid, condition) <%text>\</%text>
    __extension__({ <%text>\</%text>
        const portbar_grid *const portbar_waiting = (grid); <%text>\</%text>
        uint portbar_round = 0u; <%text>\</%text>
        bool portbar_met = false; <%text>\</%text>
        do { <%text>\</%text>
            for (uint portbar_poll = PORTBAR_ROLLED(PORTBAR_POLLS, portbar_wait_limit(portbar_waiting)); <%text>\</%text>
                 portbar_poll != 0u && !portbar_met; --portbar_poll) <%text>\</%text>
                portbar_met = (condition); <%text>\</%text>
        } while (!portbar_met && portbar_wait_goes_on(portbar_waiting, portbar_round++)); <%text>\</%text>
        if (portbar_met) <%text>\</%text>
            portbar_atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, memory_scope_device); <%text>\</%text>
        else <%text>\</%text>
            portbar_report_signal(portbar_waiting, PORTBAR_STATUS_CONDITION, 0u, 0u); <%text>\</%text>
        portbar_met; <%text>\</%text>
    })

${defines("portbar_wait_limit")}
/* Rounds of polls of a wait. Macros of the author's may have the names of the grid's fields. Caller: a waiting
   work-item. */
static inline uint portbar_wait_limit(const portbar_grid *grid)
{
    return grid->limit;
}

${defines("portbar_wait_goes_on")}
/* Whether a wait may make another round of polls after one in vain. Caller: a waiting work-item. */
static inline bool portbar_wait_goes_on(const portbar_grid *grid, uint round)
{
    if (portbar_draining(grid))
        return false;
    portbar_yield(round);
    return round + 1u < grid->limit;
}
</%def>
<%def name="clear()">
${defines("portbar_device_signals_clear")}
/* Sets `count` signals to 0 at the beginning of a launch, and lets all work-groups meet. Caller: all work-items of
   every participating work-group, in uniform control flow, before any of them uses these signals. Order and result:
   those of portbar_device_barrier. Cost: a store per signal, shared by the work-groups, and a device barrier. */
static inline bool
portbar_device_signals_clear(portbar_grid *grid, volatile global portbar_signal *signals, uint count)
{
    /* By leaders alone: some compilers apply one work-item's iteration count of a loop before a barrier to all (the
       effect JOINS_LOST). */
    if (PORTBAR_LEADER(grid))
        for (uint i = grid->group_id; i < count; i += portbar_num_groups(grid))
            portbar_word_store(&signals[i].value, 0u);
    return portbar_device_barrier(grid);
}
</%def>
