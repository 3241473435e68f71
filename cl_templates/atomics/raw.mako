## -*- coding: utf-8 -*-
## The operations on 32 and 64 bits that portbar/atomics.h is made of, with any order and scope; the backend says how.
<%namespace name="own" file="${context['backend']}"/>\
<%!
    from portbar.primitives.atomics_table import guards, pointer_to
    from portbar.rendering.folding import begin, finish
%>\
<%def name="raw(op, kind, space)">\
<% value = "" if op == "load" else f"{kind} v, " %>\
${defines(f"portbar_raw_{op}", of=pointer_to(space, kind))}
PORTBAR_RAW ${"void" if op == "store" else kind} portbar_raw_${op}(${pointer_to(space, kind)}p, ${value}int order, int scope)
{
${own.operation(op, kind, space)}\
}
</%def>
<%def name="raw_operations()">
${defines("PORTBAR_RAW")}
#define PORTBAR_RAW static inline __attribute__((overloadable, always_inline))
% if loops_fenced:
${defines("PORTBAR_RELEASES")}
#define PORTBAR_RELEASES(order) <%text>\</%text>
    ((order) == memory_order_release || (order) == memory_order_acq_rel || (order) == memory_order_seq_cst)
${defines("PORTBAR_ACQUIRES")}
#define PORTBAR_ACQUIRES(order) <%text>\</%text>
    ((order) == memory_order_acquire || (order) == memory_order_acq_rel || (order) == memory_order_seq_cst)
${defines("PORTBAR_LOOP_BEFORE", "PORTBAR_LOOP_ORDER", "PORTBAR_LOOP_AFTER")}
/* A loop of compare-exchanges has its fences outside: one each, however often it goes round. */
#define PORTBAR_LOOP_BEFORE(flags, order, scope) <%text>\</%text>
    portbar_raw_fence(flags, (order) == memory_order_seq_cst ? memory_order_seq_cst <%text>\</%text>
                             : PORTBAR_RELEASES(order) ? memory_order_release : memory_order_relaxed, scope)
#define PORTBAR_LOOP_ORDER(order) memory_order_relaxed
#define PORTBAR_LOOP_AFTER(flags, order, scope) <%text>\</%text>
    portbar_raw_fence(flags, (order) == memory_order_seq_cst ? memory_order_seq_cst <%text>\</%text>
                             : PORTBAR_ACQUIRES(order) ? memory_order_acquire : memory_order_relaxed, scope)
% endif
${defines("PORTBAR_GUESS")}
/* Start value of a compare-exchange loop: a stale value only costs one more iteration. */
#define PORTBAR_GUESS(p, scope) ${"(*(p))" if loads_write else "portbar_raw_load(p, memory_order_relaxed, scope)"}
${group()}
/* Public functions call these with constant orders and scopes, so that one branch is left. */
${own.fences()}\
% for space in spaces:
${group()}
${guards(space)[0]}\
% for word in words:
${begin(folding, "RAW")}\
${raw("load", word, space)}\
${raw("store", word, space)}\
${defines("portbar_raw_compare_exchange", of=pointer_to(space, word))}
PORTBAR_RAW ${word} portbar_raw_compare_exchange(${pointer_to(space, word)}p, ${word} expected, ${word} desired,
                                              int success, int failure, int scope)
{
${own.operation("compare_exchange", word, space)}\
}
% for op in ("exchange", "add", "and", "or", "xor"):
${raw(op, word, space)}\
% endfor
% for op in ("min", "max"):
${raw(op, word, space)}\
${raw(op, word[1:], space)}\
% endfor
${finish(folding)}\
% endfor
% if small_access:
${group()}
/* Small loads and stores are instructions of their own; the register is wider than what is in memory. */
% for kind in ("uchar", "ushort"):
${begin(folding, "SMALL_RAW")}\
${raw("load", kind, space)}\
${raw("store", kind, space)}\
${finish(folding)}\
% endfor
${end()}
% endif
% if wraps:
${group()}
/* Increment and decrement that wrap at a limit. */
${begin(folding, "WRAPPING_RAW")}\
% for op in ("inc", "dec"):
${raw(op, "uint", space)}\
% endfor
${finish(folding)}\
${end()}
% endif
${end()}
${guards(space)[1]}\
% endfor
${end()}
% for kind, space in native_add:
${group()}
/* The device's own addition of ${kind} in ${space} memory. */
${raw("add", kind, space)}\
${end()}
% endfor
</%def>
