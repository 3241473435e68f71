## -*- coding: utf-8 -*-
## Atomics by the PTX memory model, sm_70 and later, and what barriers between work-groups need there beside words.
<%namespace name="nvidia" file="backend/nvidia.mako"/>\
<%def name="operation(op, kind, space, order=None)">\
<%
    text = ""
    if order:
        before, after, _ = nvidia.module.instruction(op, kind, space)
        fenced = one_way_fences and op == "add" and order == "release"
        text = f'"{before}.{"relaxed" if fenced else order}.gpu{after}"'
        if fenced:
            text = '"fence.release.gpu;\\n\\t"\n                     ' + text
%>\
${nvidia.operation(op, kind, space, text)}\
</%def>
<%def name="fences()">
${group()}
/* PTX has one instruction for relaxed, acquire, release and acq_rel; fence.sc before it makes seq_cst. The mapping is
   that of libcu++, after "A Formal Analysis of the NVIDIA PTX Memory Consistency Model" (ASPLOS 2019). In a loop of
   compare-exchanges the fence of seq_cst precedes the loop. */
${defines("PORTBAR_LOOP_BEFORE")}<%text>
#define PORTBAR_LOOP_BEFORE(flags, order, scope) \
    portbar_raw_fence(flags, (order) == memory_order_seq_cst ? memory_order_seq_cst : memory_order_relaxed, scope)
${defines("PORTBAR_LOOP_ORDER")}
#define PORTBAR_LOOP_ORDER(order) ((order) == memory_order_seq_cst ? memory_order_acquire : (order))
${defines("PORTBAR_LOOP_AFTER")}
#define PORTBAR_LOOP_AFTER(flags, order, scope)
${defines("PORTBAR_PTX")}
#define PORTBAR_PTX(before, after, operands...) \
    do { \
        if (scope == memory_scope_all_svm_devices) \
            __asm__ volatile(before ".sys" after : operands : "memory"); \
        else if (scope == memory_scope_device) \
            __asm__ volatile(before ".gpu" after : operands : "memory"); \
        else \
            __asm__ volatile(before ".cta" after : operands : "memory"); \
    } while (0)
${defines("PORTBAR_PTX_RMW")}
#define PORTBAR_PTX_RMW(order, op, after, operands...) \
    do { \
        if ((order) == memory_order_seq_cst) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, scope); \
        if ((order) == memory_order_relaxed) \
            PORTBAR_PTX(op ".relaxed", after, operands); \
        else if ((order) == memory_order_release) \
            PORTBAR_PTX(op ".release", after, operands); \
        else if ((order) == memory_order_acq_rel) \
            PORTBAR_PTX(op ".acq_rel", after, operands); \
        else \
            PORTBAR_PTX(op ".acquire", after, operands); \
    } while (0)
${defines("PORTBAR_PTX_LOAD")}
#define PORTBAR_PTX_LOAD(after, operands...) \
    do { \
        if (order == memory_order_seq_cst) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, scope); \
        if (order == memory_order_relaxed) \
            PORTBAR_PTX("ld.relaxed", after, operands); \
        else \
            PORTBAR_PTX("ld.acquire", after, operands); \
    } while (0)
${defines("PORTBAR_PTX_STORE")}
#define PORTBAR_PTX_STORE(after, operands...) \
    do { \
        if (order == memory_order_seq_cst) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, scope); \
        if (order == memory_order_release) \
            PORTBAR_PTX("st.release", after, operands); \
        else \
            PORTBAR_PTX("st.relaxed", after, operands); \
    } while (0)
</%text>${end()}
${defines("portbar_raw_fence")}
/* Fence; it orders both address spaces, whatever `flags`. No fence for relaxed. */
PORTBAR_RAW void portbar_raw_fence(cl_mem_fence_flags flags, int order, int scope)
{
    (void)flags;
    if (order == memory_order_seq_cst)
        PORTBAR_PTX("fence.sc", ";", :);
    else if (order != memory_order_relaxed)
        PORTBAR_PTX("fence.acq_rel", ";", :);
}
</%def>
<%def name="word_acquire()">
% if one_way_fences:
${defines("portbar_word_acquire")}
/* Acquire, gpu scope, from the release of the value that a relaxed load has returned. Cost: no trip to memory. */
static inline void portbar_word_acquire(volatile global uint *p)
{
    (void)p;
    __asm__ volatile("fence.acquire.gpu;" ::: "memory");
}
% else:
${defines("portbar_word_acquire")}
/* Acquire, gpu scope, from the release of the value that a relaxed load of `*p` has returned. Cost: one load. */
#define portbar_word_acquire(p) ((void)portbar_word_load_acquire(p))
% endif
</%def>
<%def name="word_arrive()">
${defines("portbar_word_arrive")}
/* One more arrival at a counter, release, gpu scope; returns how many there were before. Caller: a leader, whose lane
   is the first. The assembler would combine additions by a vote of the warp, but no increments whose bound it does not
   know. */
static inline uint portbar_word_arrive(volatile global uint *p)
{
    uint before;
    __asm__ volatile("{\n\t.reg .u32 most;\n\tmov.u32 most, %%lanemask_ge;\n\t"
                     "${"fence.release.gpu;" if one_way_fences else "fence.acq_rel.gpu;"}\n\t"
                     "atom.relaxed.gpu.global.inc.u32 %0, [%1], most;\n\t}" : "=r"(before) : "l"(p) : "memory");
    return before;
}
</%def>
<%def name="word_arrive_unanswered()">
${defines("portbar_word_arrive_unanswered")}
/* One more arrival at a counter, release, gpu scope, as by portbar_word_arrive, without an answer. Caller: a leader. */
static inline void portbar_word_arrive_unanswered(volatile global uint *p)
{
    __asm__ volatile("{\n\t.reg .u32 most;\n\tmov.u32 most, %%lanemask_ge;\n\t"
                     "${"fence.release.gpu;" if one_way_fences else "fence.acq_rel.gpu;"}\n\t"
                     "red.relaxed.gpu.global.inc.u32 [%0], most;\n\t}" :: "l"(p) : "memory");
}
</%def>
<%def name="word_arrive_twice()">
${defines("portbar_word_arrive_twice")}
/* One more arrival at each of two counters, release, gpu scope, as by portbar_word_arrive. Caller: a leader. */
static inline void portbar_word_arrive_twice(volatile global uint *p, volatile global uint *q)
{
    __asm__ volatile("{\n\t.reg .u32 most;\n\tmov.u32 most, %%lanemask_ge;\n\t"
                     "${"fence.release.gpu;" if one_way_fences else "fence.acq_rel.gpu;"}\n\t"
                     "red.relaxed.gpu.global.inc.u32 [%0], most;\n\t"
                     "red.relaxed.gpu.global.inc.u32 [%1], most;\n\t}" :: "l"(p), "l"(q) : "memory");
}
</%def>
<%def name="votes_add_twice()">
${defines("portbar_votes_add_twice")}
/* Arrivals with votes at two words, release, gpu scope. Caller: a leader. */
static inline void portbar_votes_add_twice(volatile global ulong *p, volatile global ulong *q, ulong v)
{
    __asm__ volatile("${"fence.release.gpu;" if one_way_fences else "fence.acq_rel.gpu;"}\n\t"
                     "red.relaxed.gpu.global.add.u64 [%0], %2;\n\t"
                     "red.relaxed.gpu.global.add.u64 [%1], %2;" :: "l"(p), "l"(q), "l"(v) : "memory");
}
</%def>
<%def name="word_arrive_chained()">
${defines("portbar_word_arrive_chained")}
/* One more arrival at a counter, gpu scope, that passes on what a relaxed read-modify-write before it was released
   with, by a fence that acquires and releases; returns how many there were before. Caller: a leader. */
static inline uint portbar_word_arrive_chained(volatile global uint *p)
{
    uint before;
    __asm__ volatile("{\n\t.reg .u32 most;\n\tmov.u32 most, %%lanemask_ge;\n\t"
                     "fence.acq_rel.gpu;\n\t"
                     "atom.relaxed.gpu.global.inc.u32 %0, [%1], most;\n\t}" : "=r"(before) : "l"(p) : "memory");
    return before;
}

${defines("portbar_word_fence")}
/* Acquire and release, gpu scope, for relaxed operations before and after. */
static inline void portbar_word_fence(void)
{
    __asm__ volatile("fence.acq_rel.gpu;" ::: "memory");
}
</%def>
<%def name="unknown()">
${defines("portbar_unknown")}
/* Hides the value from the optimiser, so that addresses are recomputed rather than kept in registers. */
static inline uint portbar_unknown(uint number)
{
    __asm__ volatile("" : "+r"(number));
    return number;
}
</%def>
<%def name="local_pointer()">
${defines("portbar_local_pointer")}
/* The same pointer, in a register: through a variable's name, each access would compute the address of local memory
   again. */
static inline local uint *portbar_local_pointer(local uint *p)
{
    ulong address = (ulong)p;
    __asm__ volatile("mov.u64 %0, %0;" : "+l"(address));
    return (local uint *)address;
}
</%def>
<%def name="grid_fields()">
    uint leads;
</%def>
<%def name="enter_last()">
    grid->leads = portbar_is_leader() ? 1u : 0u;
    grid->shared = portbar_local_pointer(shared);
</%def>
<%def name="leads()">
${defines("PORTBAR_LEADS", "PORTBAR_GIVE_UP")}
/* Whether the caller communicates with other work-groups, from a register; and the end of that for its group. */
#define PORTBAR_LEADS(grid) ((grid)->leads != 0u)
#define PORTBAR_GIVE_UP(grid) ((grid)->shared[PORTBAR_SHARED_OK] = 0u, (grid)->leads = 0u)
</%def>
<%def name="check_arrival()">
${defines("portbar_check_arrival")}
/* Barriers are tuned to the nanosecond here, so only the polls check counts, and find only those that are far off. */
#define portbar_check_arrival(grid, lacking, members) ((void)(lacking))
</%def>
<%def name="arrive_at_both()">
${defines("portbar_arrive_at_both")}
/* An arrival at each of two counters, without waiting for the results. */
#define portbar_arrive_at_both(grid, p, q, complete) ((void)(complete), portbar_word_arrive_twice(p, q))
</%def>
<%def name="phase_before_barrier()">
    /* Loaded before the work-group's barrier, which hides the latency of local memory. */
    const uint phase = grid->shared[PORTBAR_SHARED_TARGET] + 1u;
</%def>
<%def name="phase_after_barrier()"></%def>
<%def name="first_polls_of_votes()">
    /* As for other barriers. */
    for (uint polls = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); polls != 0u && (uint)seen != target; --polls) {
% if pauses:
        (void)portbar_relax((target - (uint)seen) / 2u);
% endif
        seen = ${look_at_votes};
    }
</%def>
<%def name="first_polls_of_word()">
% if not pauses:
    /* Most waits end here, in the fewest instructions from poll to poll. */
    for (uint polls = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); polls != 0u; --polls)
        if (portbar_word_load(word) - target < grid->num_groups) {
            portbar_word_acquire(word);
            return ${reached};
        }
% endif
</%def>
<%def name="first_polls_of_counters()">
    /* Most waits end here, in the fewest instructions from poll to poll. */
    for (uint polls = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); polls != 0u && missing != 0u; --polls) {
        missing = portbar_missing(grid, ${counters_name}, phase);
% if pauses:
        if (missing != 0u)
            (void)portbar_relax(missing);
% endif
    }
</%def>
<%def name="remember_held()">
    /* The split form asks the register. */
    grid->leads = held ? grid->leads : 0u;
</%def>
<%def name="sleep()">
${defines("portbar_sleep")}
/* Pause between polls: those who still work get on. Caller: a waiting leader. */
static inline void portbar_sleep(uint nanoseconds)
{
    __asm__ volatile("nanosleep.u32 %0;" :: "r"(nanoseconds));
}
</%def>
<%def name="relax()">
${defines("portbar_relax")}
/* Pause between two polls while many groups are missing; returns how many polls it took the time of, each about a
   quarter of a microsecond. Caller: a waiting leader. */
static inline uint portbar_relax(uint missing)
{
    const uint nanoseconds = missing > ${sleep_above}u ? min(missing / ${sleep_divisor}u, ${sleep_ns}u) : 0u;
    if (nanoseconds != 0u)
        portbar_sleep(nanoseconds);
    return nanoseconds / 256u;
}
</%def>
<%def name="clock()">
${defines("portbar_clock")}
/* Cycles of the multiprocessor's clock, from any beginning. Any work-item. */
static inline uint portbar_clock(void)
{
    uint now;
    __asm__ volatile("mov.u32 %0, %%clock;" : "=r"(now) :: "memory");
    return now;
}
</%def>
