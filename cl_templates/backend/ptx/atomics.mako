## -*- coding: utf-8 -*-
## Atomics by the PTX memory model, sm_70 and later.
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
/* PTX has one instruction for relaxed, acquire, release and acq_rel; fence.sc before it makes seq_cst. The mapping is that of libcu++,
   after "A Formal Analysis of the NVIDIA PTX Memory Consistency Model" (ASPLOS 2019). */
<%text>/* In a loop of compare-exchanges the fence of seq_cst precedes the loop. */
#define PORTBAR_LOOP_BEFORE(flags, order, scope) \
    portbar_raw_fence(flags, (order) == memory_order_seq_cst ? memory_order_seq_cst : memory_order_relaxed, scope)
#define PORTBAR_LOOP_ORDER(order) ((order) == memory_order_seq_cst ? memory_order_acquire : (order))
#define PORTBAR_LOOP_AFTER(flags, order, scope)
#define PORTBAR_PTX(before, after, ...) \
    do { \
        if (scope == memory_scope_all_svm_devices) \
            __asm__ volatile(before ".sys" after : __VA_ARGS__ : "memory"); \
        else if (scope == memory_scope_device) \
            __asm__ volatile(before ".gpu" after : __VA_ARGS__ : "memory"); \
        else \
            __asm__ volatile(before ".cta" after : __VA_ARGS__ : "memory"); \
    } while (0)
#define PORTBAR_PTX_RMW(order, op, after, ...) \
    do { \
        if ((order) == memory_order_seq_cst) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, scope); \
        if ((order) == memory_order_relaxed) \
            PORTBAR_PTX(op ".relaxed", after, __VA_ARGS__); \
        else if ((order) == memory_order_release) \
            PORTBAR_PTX(op ".release", after, __VA_ARGS__); \
        else if ((order) == memory_order_acq_rel) \
            PORTBAR_PTX(op ".acq_rel", after, __VA_ARGS__); \
        else \
            PORTBAR_PTX(op ".acquire", after, __VA_ARGS__); \
    } while (0)
#define PORTBAR_PTX_LOAD(after, ...) \
    do { \
        if (order == memory_order_seq_cst) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, scope); \
        if (order == memory_order_relaxed) \
            PORTBAR_PTX("ld.relaxed", after, __VA_ARGS__); \
        else \
            PORTBAR_PTX("ld.acquire", after, __VA_ARGS__); \
    } while (0)
#define PORTBAR_PTX_STORE(after, ...) \
    do { \
        if (order == memory_order_seq_cst) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, scope); \
        if (order == memory_order_release) \
            PORTBAR_PTX("st.release", after, __VA_ARGS__); \
        else \
            PORTBAR_PTX("st.relaxed", after, __VA_ARGS__); \
    } while (0)
</%text>
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
