## -*- coding: utf-8 -*-
## The public atomics' operations on 32 and 64 bits, by cl12.
<%def name="raw_operations()">
<%
    def name_of(op, word):
        return f"atomic_{op}" if word in ("uint", "int") else f"atom_{op}"
%>
% if "ulong" in words:
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
% endif
/* The device's own operations on 32 and 64 bits: OpenCL 1.2's relaxed atomics, with fences before and after by the order.
   OpenCL 1.2 has no fence between work-groups, so the strongest is issued, whatever the scope; that it holds on this device was
   measured by litmus tests and by the ordering probe, not read in a specification. */
/* What a loop of compare-exchanges starts with: a plain load, which is cheap; a stale one only goes round once more. */
#define PORTBAR_GUESS(p, scope) (*(p))
#define PORTBAR_RAW static inline __attribute__((overloadable, always_inline))
#define PORTBAR_RELEASES(order) ((order) == memory_order_release || (order) == memory_order_acq_rel || (order) == memory_order_seq_cst)
#define PORTBAR_ACQUIRES(order) ((order) == memory_order_acquire || (order) == memory_order_acq_rel || (order) == memory_order_seq_cst)
<%text>/* A loop of compare-exchanges has its fences outside: one each, however often it goes round. */
#define PORTBAR_LOOP_BEFORE(flags, order, scope) \
    portbar_raw_fence(flags, (order) == memory_order_seq_cst ? memory_order_seq_cst : PORTBAR_RELEASES(order) ? memory_order_release \
                                                                                      : memory_order_relaxed, scope)
#define PORTBAR_LOOP_ORDER(order) memory_order_relaxed
#define PORTBAR_LOOP_AFTER(flags, order, scope) \
    portbar_raw_fence(flags, (order) == memory_order_seq_cst ? memory_order_seq_cst : PORTBAR_ACQUIRES(order) ? memory_order_acquire \
                                                                                      : memory_order_relaxed, scope)
</%text>
% if fences_are_barriers:
/* This device makes a barrier of each fence, which loses work-items wherever not all of a group come to it. Its atomics are
   sequentially consistent by themselves and its work-items share a thread, so none is issued; litmus tests are the evidence. */
PORTBAR_RAW void portbar_raw_fence(cl_mem_fence_flags flags, int order, int scope)
{
    (void)flags;
    (void)order;
    (void)scope;
}
% else:
/* Fence over the named address spaces; relaxed is none. */
#define PORTBAR_FENCE_12(flags) (write_mem_fence(flags), mem_fence(flags), read_mem_fence(flags))
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
% endif
PORTBAR_RAW void portbar_raw_before(cl_mem_fence_flags flags, int order)
{
    if (PORTBAR_RELEASES(order))
        portbar_raw_fence(flags, memory_order_acq_rel, memory_scope_device);
}
PORTBAR_RAW void portbar_raw_after(cl_mem_fence_flags flags, int order)
{
    if (PORTBAR_ACQUIRES(order))
        portbar_raw_fence(flags, memory_order_acq_rel, memory_scope_device);
}
% for word in words:
% for space in spaces:
<% flags = f"CLK_{space.upper()}_MEM_FENCE" %>
/* Loads are read-modify-writes: OpenCL 1.2 does not promise that a plain load ever sees another group's store. */
PORTBAR_RAW ${word} portbar_raw_load(volatile ${space} ${word} *p, int order, int scope)
{
    (void)scope;
    if (order == memory_order_seq_cst)
        portbar_raw_before(${flags}, order);
    const ${word} found = ${name_of("or", word)}(p, (${word})0);
    portbar_raw_after(${flags}, order);
    return found;
}
PORTBAR_RAW void portbar_raw_store(volatile ${space} ${word} *p, ${word} v, int order, int scope)
{
    (void)scope;
    portbar_raw_before(${flags}, order);
    (void)${name_of("xchg", word)}(p, v);
    if (order == memory_order_seq_cst)
        portbar_raw_after(${flags}, order);
}
PORTBAR_RAW ${word} portbar_raw_compare_exchange(volatile ${space} ${word} *p, ${word} expected, ${word} desired, int success,
                                              int failure, int scope)
{
    (void)scope;
    portbar_raw_before(${flags}, success);
    const ${word} found = ${name_of("cmpxchg", word)}(p, expected, desired);
    portbar_raw_after(${flags}, found == expected ? success : failure);
    return found;
}
% for op, builtin in (("exchange", "xchg"), ("add", "add"), ("and", "and"), ("or", "or"), ("xor", "xor")):
PORTBAR_RAW ${word} portbar_raw_${op}(volatile ${space} ${word} *p, ${word} v, int order, int scope)
{
    (void)scope;
    portbar_raw_before(${flags}, order);
    const ${word} old = ${name_of(builtin, word)}(p, v);
    portbar_raw_after(${flags}, order);
    return old;
}
% endfor
% for op in ("min", "max"):
% for kind in (word, word[1:]):
PORTBAR_RAW ${kind} portbar_raw_${op}(volatile ${space} ${kind} *p, ${kind} v, int order, int scope)
{
    (void)scope;
    portbar_raw_before(${flags}, order);
    const ${kind} old = ${name_of(op, kind)}(p, v);
    portbar_raw_after(${flags}, order);
    return old;
}
% endfor
% endfor
% endfor
% endfor
</%def>
