## -*- coding: utf-8 -*-
## Words of 32 bits in global memory by NVIDIA's PTX memory model (sm_70 and later), at gpu scope.
<%def name="word_load()">
/* Relaxed load, gpu scope. */
static inline uint portbar_word_load(volatile global uint *p)
{
    uint v;
    __asm__ volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
</%def>
<%def name="word_load_acquire()">
/* Acquire load, gpu scope. */
static inline uint portbar_word_load_acquire(volatile global uint *p)
{
    uint v;
    __asm__ volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
</%def>
<%def name="word_store()">
/* Relaxed store, gpu scope. */
static inline void portbar_word_store(volatile global uint *p, uint v)
{
    __asm__ volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}
</%def>
<%def name="word_store_release()">
/* Release store, gpu scope. */
static inline void portbar_word_store_release(volatile global uint *p, uint v)
{
    __asm__ volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}
</%def>
<%def name="word_add()">
/* Acquire-release fetch-and-add, gpu scope; returns the old value. */
static inline uint portbar_word_add(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_add_release()">
/* Release fetch-and-add, gpu scope; returns the old value. The caller acquires before it relies on it. */
static inline uint portbar_word_add_release(volatile global uint *p, uint v)
{
    uint old;
% if one_way_fences:
    __asm__ volatile("fence.release.gpu;\n\t"
                     "atom.add.relaxed.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
% else:
    __asm__ volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
% endif
    return old;
}
</%def>
<%def name="word_chain()">
/* One more arrival at a counter, gpu scope, that passes on what a relaxed read-modify-write before it was released with; returns how
   many there were before. The fence acquires for the one and releases for the other. Caller: a leader. */
static inline uint portbar_word_arrive_chained(volatile global uint *p)
{
    /* As in portbar_word_arrive. */
    uint before;
    __asm__ volatile("{\n\t"
                     ".reg .u32 most;\n\t"
                     "mov.u32 most, %%lanemask_ge;\n\t"
                     "fence.acq_rel.gpu;\n\t"
                     "atom.relaxed.gpu.global.inc.u32 %0, [%1], most;\n\t"
                     "}" : "=r"(before) : "l"(p) : "memory");
    return before;
}

/* Acquire and release, gpu scope, for relaxed operations before and after. */
static inline void portbar_word_fence(void)
{
    __asm__ volatile("fence.acq_rel.gpu;" ::: "memory");
}
</%def>
<%def name="local_pointer()">
/* The same pointer, in a register. Written as a variable's name, each access would ask anew where the work-group's local memory
   begins, which takes as long as the access. */
static inline local uint *portbar_local_pointer(local uint *p)
{
    ulong address = (ulong)p;
    __asm__ volatile("mov.u64 %0, %0;" : "+l"(address));
    return (local uint *)address;
}
</%def>
<%def name="word_or()">
/* Release fetch-and-or, gpu scope; returns the old value. */
static inline uint portbar_word_or(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("atom.or.release.gpu.global.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_exchange()">
/* Acquire-release exchange, gpu scope; returns the old value. */
static inline uint portbar_word_exchange(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("atom.exch.acq_rel.gpu.global.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_compare_exchange()">
/* Acquire-release compare-and-exchange, gpu scope; returns the value found, equal to `expected` on success. */
static inline uint portbar_word_compare_exchange(volatile global uint *p, uint expected, uint desired)
{
    uint found;
    __asm__ volatile("atom.cas.acq_rel.gpu.global.b32 %0, [%1], %2, %3;"
                     : "=r"(found) : "l"(p), "r"(expected), "r"(desired) : "memory");
    return found;
}
</%def>
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
/* The device's own operations on 32 and 64 bits, by the PTX memory model (sm_70 and later): one instruction for relaxed, acquire,
   release and acq_rel, with fence.sc before it for seq_cst. The mapping is that of libcu++, after "A Formal Analysis of the NVIDIA
   PTX Memory Consistency Model" (ASPLOS 2019). Public functions call them with constant orders and scopes, so one branch is left. */
/* What a loop of compare-exchanges starts with. */
#define PORTBAR_GUESS(p, scope) portbar_raw_load(p, memory_order_relaxed, scope)
#define PORTBAR_RAW static inline __attribute__((overloadable, always_inline))
<%text>/* In a loop of compare-exchanges the fence of seq_cst stands before the loop. */
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
/* Fence; it orders both address spaces, whatever `flags`. Relaxed is none. */
PORTBAR_RAW void portbar_raw_fence(cl_mem_fence_flags flags, int order, int scope)
{
    (void)flags;
    if (order == memory_order_seq_cst)
        PORTBAR_PTX("fence.sc", ";", :);
    else if (order != memory_order_relaxed)
        PORTBAR_PTX("fence.acq_rel", ";", :);
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
