## -*- coding: utf-8 -*-
## The public atomics' operations on 32 and 64 bits, by membar.
<%def name="raw_operations()">
<%
    REGISTER = {"uint": "r", "int": "r", "ulong": "l", "long": "l", "float": "f", "double": "d"}
    PTX = {"uint": "u32", "int": "s32", "ulong": "u64", "long": "s64", "float": "f32", "double": "f64"}
    BITS = {"uint": "b32", "ulong": "b64"}
    STATE = {"global": ".global", "local": ".shared", "generic": ""}
    def guard(space):
        return "#ifdef PORTBAR_GENERIC_ADDRESS_SPACE\n" if space == "generic" else ""
    def end(space):
        return "#endif\n" if space == "generic" else ""
    def pointer(space, kind):
        return f"volatile {kind} *p" if space == "generic" else f"volatile {space} {kind} *p"
%>
/* The device's own operations on 32 and 64 bits: relaxed instructions with membar before a release and after an acquire, as
   libcu++ does before sm_70. Public functions call them with constant orders and scopes, so the branches go away. */
/* What a loop of compare-exchanges starts with. */
#define PORTBAR_GUESS(p, scope) portbar_raw_load(p, memory_order_relaxed, scope)
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
#define PORTBAR_PTX_RMW(order, op, after, ...) \
    do { \
        if (PORTBAR_RELEASES(order)) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, scope); \
        __asm__ volatile(op after : __VA_ARGS__ : "memory"); \
        if (PORTBAR_ACQUIRES(order)) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, scope); \
    } while (0)
#define PORTBAR_PTX_LOAD(after, ...) \
    do { \
        if (order == memory_order_seq_cst) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, scope); \
        __asm__ volatile("ld.volatile" after : __VA_ARGS__ : "memory"); \
        if (order != memory_order_relaxed) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, scope); \
    } while (0)
#define PORTBAR_PTX_STORE(after, ...) \
    do { \
        if (order != memory_order_relaxed) \
            portbar_raw_fence(CLK_GLOBAL_MEM_FENCE, memory_order_release, scope); \
        __asm__ volatile("st.volatile" after : __VA_ARGS__ : "memory"); \
    } while (0)
</%text>
/* Fence; it orders both address spaces, whatever `flags`. Relaxed is none. */
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
% for space in spaces:
% for word in words:
<% reg = REGISTER[word] %>
${guard(space)}\
PORTBAR_RAW ${word} portbar_raw_load(${pointer(space, word)}, int order, int scope)
{
    ${word} v;
    PORTBAR_PTX_LOAD("${STATE[space]}.${BITS[word]} %0, [%1];", "=${reg}"(v) : "l"(p));
    return v;
}
PORTBAR_RAW void portbar_raw_store(${pointer(space, word)}, ${word} v, int order, int scope)
{
    PORTBAR_PTX_STORE("${STATE[space]}.${BITS[word]} [%0], %1;", : "l"(p), "${reg}"(v));
}
PORTBAR_RAW ${word} portbar_raw_compare_exchange(${pointer(space, word)}, ${word} expected, ${word} desired, int success, int failure,
                                              int scope)
{
    ${word} found;
    (void)failure;  /* never stronger than success, and one instruction has one order */
    PORTBAR_PTX_RMW(success, "atom", "${STATE[space]}.cas.${BITS[word]} %0, [%1], %2, %3;",
                    "=${reg}"(found) : "l"(p), "${reg}"(expected), "${reg}"(desired));
    return found;
}
% for op, kind in (("exchange", BITS[word]), ("add", PTX[word]), ("and", BITS[word]), ("or", BITS[word]), ("xor", BITS[word])):
PORTBAR_RAW ${word} portbar_raw_${op}(${pointer(space, word)}, ${word} v, int order, int scope)
{
    ${word} old;
    PORTBAR_PTX_RMW(order, "atom", "${STATE[space]}.${"exch" if op == "exchange" else op}.${kind} %0, [%1], %2;", "=${reg}"(old) : "l"(p), "${reg}"(v));
    return old;
}
% endfor
% for op in ("min", "max"):
% for kind in (word, word[1:]):
PORTBAR_RAW ${kind} portbar_raw_${op}(${pointer(space, kind)}, ${kind} v, int order, int scope)
{
    ${kind} old;
    PORTBAR_PTX_RMW(order, "atom", "${STATE[space]}.${op}.${PTX[kind]} %0, [%1], %2;", "=${reg}"(old) : "l"(p), "${reg}"(v));
    return old;
}
% endfor
% endfor
${end(space)}\
% endfor
${guard(space)}\
% for kind in ("uchar", "ushort"):
/* Small loads and stores are instructions of their own; the register is wider than what is in memory. */
PORTBAR_RAW ${kind} portbar_raw_load(${pointer(space, kind)}, int order, int scope)
{
    uint v;
    PORTBAR_PTX_LOAD("${STATE[space]}.${"u8" if kind == "uchar" else "u16"} %0, [%1];", "=r"(v) : "l"(p));
    return (${kind})v;
}
PORTBAR_RAW void portbar_raw_store(${pointer(space, kind)}, ${kind} small, int order, int scope)
{
    const uint v = small;
    PORTBAR_PTX_STORE("${STATE[space]}.${"u8" if kind == "uchar" else "u16"} [%0], %1;", : "l"(p), "r"(v));
}
% endfor
/* Increment and decrement that wrap at a limit. */
% for op in ("inc", "dec"):
PORTBAR_RAW uint portbar_raw_${op}(${pointer(space, "uint")}, uint v, int order, int scope)
{
    uint old;
    PORTBAR_PTX_RMW(order, "atom", "${STATE[space]}.${op}.u32 %0, [%1], %2;", "=r"(old) : "l"(p), "r"(v));
    return old;
}
% endfor
${end(space)}\
% endfor
% for kind, space in native_add:

/* The device's own addition of ${kind} in ${space} memory${"; it flushes subnormal numbers to zero" if (kind, space) == ("float", "global") else ""}. */
PORTBAR_RAW ${kind} portbar_raw_add(volatile ${space} ${kind} *p, ${kind} v, int order, int scope)
{
    ${kind} old;
    PORTBAR_PTX_RMW(order, "atom", "${STATE[space]}.add.${PTX[kind]} %0, [%1], %2;", "=${REGISTER[kind]}"(old) : "l"(p), "${REGISTER[kind]}"(v));
    return old;
}
% endfor
</%def>
