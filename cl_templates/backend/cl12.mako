## -*- coding: utf-8 -*-
## Atomics by OpenCL 1.2's, and fences, for devices whose ordering litmus tests and the probe confirmed.
<%def name="operation(op, kind, space, order=None)">\
<%
    builtin = {"exchange": "xchg", "store": "xchg", "compare_exchange": "cmpxchg", "load": "or"}.get(op, op)
    values = {"load": f"({kind})0", "compare_exchange": "expected, desired"}.get(op, "v")
    call = f"{'atomic' if kind in ('uint', 'int') else 'atom'}_{builtin}(p, {values})"
    flags = f"CLK_{space.upper()}_MEM_FENCE"
    asked = "success" if op == "compare_exchange" else "order"
    # A read-modify-write has a fence on each side; a load and a store have that of the other side for seq_cst only.
    other = f"    if ({asked} == memory_order_seq_cst)\n    "
%>\
% if order:
% if order in ("release", "acq_rel"):
    portbar_word_fence();
% endif
% if op == "store":
    (void)${call};
% elif order in ("relaxed", "release"):
    return ${call};
% else:
    const ${kind} old = ${call};
    portbar_word_fence();
    return old;
% endif
% else:
    (void)scope;
${other if op == "load" else ""}    portbar_raw_before(${flags}, ${asked});
% if op == "store":
    (void)${call};
% else:
    const ${kind} old = ${call};
% endif
${other if op == "store" else ""}    portbar_raw_after(${flags}, ${"old == expected ? success : failure" if op == "compare_exchange" else asked});
% if op != "store":
    return old;
% endif
% endif
</%def>
<%def name="word_fence()">
${defines("portbar_word_fence")}
/* OpenCL 1.2 has no fence between work-groups. The strongest that it has is issued both ways; whether it orders memory
   across work-groups on this device was measured by portbar's ordering probe, not read in a specification. */
static inline void portbar_word_fence(void)
{
    write_mem_fence(CLK_GLOBAL_MEM_FENCE);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    read_mem_fence(CLK_GLOBAL_MEM_FENCE);
}
</%def>
<%def name="fences()">
% if "ulong" in words:
${defines()}
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
% endif
${group()}
/* OpenCL 1.2's relaxed atomics, with fences before and after by the order. It has no fence between work-groups, so the
   strongest is issued, whatever the scope; that it holds on this device was measured by litmus tests and by the
   ordering probe, not read in a specification. Loads are read-modify-writes: OpenCL 1.2 does not promise that a plain
   load ever sees another group's store. */
% if fences_are_barriers:
${defines("portbar_raw_fence")}
/* This device makes a barrier of each fence, which loses work-items wherever not all of a group come to it. Its atomics
   are sequentially consistent by themselves and its work-items share a thread, so none is issued; litmus tests are the
   evidence. */
PORTBAR_RAW void portbar_raw_fence(cl_mem_fence_flags flags, int order, int scope)
{
    (void)flags;
    (void)order;
    (void)scope;
}
% else:
${group()}
/* Fence over the named address spaces; no fence for relaxed. */
${defines("PORTBAR_FENCE_12")}
#define PORTBAR_FENCE_12(flags) (write_mem_fence(flags), mem_fence(flags), read_mem_fence(flags))
${defines("portbar_raw_fence")}
PORTBAR_RAW void portbar_raw_fence(cl_mem_fence_flags flags, int order, int scope)
{
    (void)scope;
    if (order != memory_order_relaxed) {
        if (flags == CLK_GLOBAL_MEM_FENCE)
            PORTBAR_FENCE_12(CLK_GLOBAL_MEM_FENCE);
        else if (flags == CLK_LOCAL_MEM_FENCE)
            PORTBAR_FENCE_12(CLK_LOCAL_MEM_FENCE);
        else
            PORTBAR_FENCE_12(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}
${end()}
% endif
${defines("portbar_raw_before")}
PORTBAR_RAW void portbar_raw_before(cl_mem_fence_flags flags, int order)
{
    if (PORTBAR_RELEASES(order))
        portbar_raw_fence(flags, memory_order_acq_rel, memory_scope_device);
}
${defines("portbar_raw_after")}
PORTBAR_RAW void portbar_raw_after(cl_mem_fence_flags flags, int order)
{
    if (PORTBAR_ACQUIRES(order))
        portbar_raw_fence(flags, memory_order_acq_rel, memory_scope_device);
}
${end()}
</%def>
