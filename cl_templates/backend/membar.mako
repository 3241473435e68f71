## -*- coding: utf-8 -*-
## Atomics of NVIDIA devices before sm_70, whose PTX has no memory orders.
<%namespace name="nvidia" file="backend/nvidia.mako"/>\
<%def name="operation(op, kind, space, order=None)">\
<%
    text = ""
    if order:
        before, after, _ = nvidia.module.instruction(op, kind, space)
        text = '"' + before + (".volatile" if op in ("load", "store") else "") + after + '"'
        if order in ("release", "acq_rel"):
            text = text.replace('"', '"membar.gl;\\n\\t', 1)
        if order in ("acquire", "acq_rel"):
            text = text[:-1] + '\\n\\tmembar.gl;"'
%>\
${nvidia.operation(op, kind, space, text)}\
</%def>
<%def name="fences()">
${group()}
/* Relaxed instructions with membar before a release and after an acquire, as libcu++ does before sm_70. */
${defines("PORTBAR_PTX_RMW")}
<%text>#define PORTBAR_PTX_RMW(order, op, after, operands...) \
    do { \
        if (PORTBAR_RELEASES(order)) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, scope); \
        __asm__ volatile(op after : operands : "memory"); \
        if (PORTBAR_ACQUIRES(order)) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, scope); \
    } while (0)
${defines("PORTBAR_PTX_LOAD")}
#define PORTBAR_PTX_LOAD(after, operands...) \
    do { \
        if (order == memory_order_seq_cst) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, scope); \
        __asm__ volatile("ld.volatile" after : operands : "memory"); \
        if (order != memory_order_relaxed) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, scope); \
    } while (0)
${defines("PORTBAR_PTX_STORE")}
#define PORTBAR_PTX_STORE(after, operands...) \
    do { \
        if (order != memory_order_relaxed) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_release, scope); \
        __asm__ volatile("st.volatile" after : operands : "memory"); \
    } while (0)
</%text>${end()}
${defines("portbar_raw_fence")}
/* Fence; it orders both address spaces, whatever `flags`. No fence for relaxed. */
PORTBAR_RAW void portbar_raw_fence(cl_mem_fence_flags flags, int order, int scope)
{
    (void)flags;
    if (order == memory_order_relaxed)
        return;
    if (scope == memory_scope_all_svm_devices)
        __asm__ volatile("membar.sys;" ::: "memory");
    else if (scope == memory_scope_device)
        __asm__ volatile("membar.gl;" ::: "memory");
    else
        __asm__ volatile("membar.cta;" ::: "memory");
}
</%def>
