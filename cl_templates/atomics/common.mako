## -*- coding: utf-8 -*-
## The public functions of portbar/atomics.h, made of the raw operations that each strategy defines.
<%!
    def where(condition):
        return f" \\\n    || ({condition})"

    def since_3(feature):
        return where(f"__OPENCL_C_VERSION__ >= 300 && !defined(__opencl_c_{feature})")

    NO_SUB_GROUPS = (
        "!defined(__opencl_c_subgroups) \\\n"
        "        && (__OPENCL_C_VERSION__ >= 300 || (!defined(cl_khr_subgroups) && !defined(cl_intel_subgroups)))"
    )
    #: OpenCL C's names, clang's values, and where OpenCL C 2.0 and later lack them.
    ABSENT = (
        ("memory_order_relaxed", 0, ""),
        ("memory_order_acquire", 2, since_3("atomic_order_acq_rel")),
        ("memory_order_release", 3, since_3("atomic_order_acq_rel")),
        ("memory_order_acq_rel", 4, since_3("atomic_order_acq_rel")),
        ("memory_order_seq_cst", 5, since_3("atomic_order_seq_cst")),
        ("memory_scope_work_item", 0, ""),
        ("memory_scope_work_group", 1, ""),
        ("memory_scope_device", 2, since_3("atomic_scope_device")),
        ("memory_scope_all_svm_devices", 3, since_3("atomic_scope_all_devices")),
        ("memory_scope_sub_group", 4, where(NO_SUB_GROUPS)),
    )
%>
<%def name="names()">
${group()}
/* Features of this device, for programs that adapt. */
% for kind in types_offered:
${feature(f"PORTBAR_ATOMICS_{kind.name.upper()}")}
% endfor
% for name in scopes:
${feature(f"PORTBAR_ATOMICS_SCOPE_{name.upper()}")}
% endfor
% for name, where in native_add:
${feature(f"PORTBAR_ATOMICS_NATIVE_ADD_{name.upper()}_{where.upper()}")}
% endfor
${end()}

${group()}
/* OpenCL C's names, where its language level or its features leave them out; the values are clang's. */
% for name, value, lack in ABSENT:
${defines(name)}
#if !defined(__OPENCL_C_VERSION__) || __OPENCL_C_VERSION__ < 200${lack}
#define ${name} ${value}
#endif
% endfor
${end()}

${group()}
#if (__OPENCL_C_VERSION__ >= 200 && __OPENCL_C_VERSION__ < 300) || defined(__opencl_c_generic_address_space)
${feature("PORTBAR_GENERIC_ADDRESS_SPACE")}
${end()}
#endif
% if "generic" in spaces:
${defines("PORTBAR_GENERIC", "PORTBAR_BOTH_FENCES")}
/* In the place of a named address space, and its fences. */
#define PORTBAR_GENERIC
#define PORTBAR_BOTH_FENCES (CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
% endif
% if "ushort" in floats:
${defines()}
/* The type half. */
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
% endif
</%def>
<%def name="rules()">
${defines("PORTBAR_ATOMIC_WAIT_POLLS")}
/* Polls that a wait makes before it gives up: some seconds on this device. */
#ifndef PORTBAR_ATOMIC_WAIT_POLLS
#define PORTBAR_ATOMIC_WAIT_POLLS ${wait_polls}u
#endif

${defines("PORTBAR_WAIT_REACHED", "PORTBAR_WAIT_DRAIN", "PORTBAR_WAIT_LIMIT")}
/* How a wait ended: by what it waits for; without it, which the host need not know or knows; or at its limit. */
#define PORTBAR_WAIT_REACHED 0u
#define PORTBAR_WAIT_DRAIN 1u
#define PORTBAR_WAIT_LIMIT 2u

${defines("PORTBAR_WAIT_PARAM", "portbar_reduction_param", "portbar_reduction_launch")}
/* First parameter of a kernel without a grid whose waits report to the host when they give up; the Python runtime fills
   both in. In kernels without it the names stand for "none". */
#define PORTBAR_WAIT_PARAM volatile global uint *portbar_reduction_param, const uint4 portbar_reduction_launch
enum { portbar_reduction_param = 0, portbar_reduction_launch = 0 };

${defines("PORTBAR_ATOMIC", "PORTBAR_REFUSE")}
/* Checks of the compiler at each call. An order or a scope that is not constant would leave a switch in the binary. */
#define PORTBAR_ATOMIC static inline __attribute__((overloadable, always_inline))
#define PORTBAR_REFUSE(condition, words) __attribute__((diagnose_if(condition, "portbar: " words, "error")))
${defines("PORTBAR_CONSTANT", "PORTBAR_CONSTANT_BESIDE")}
/* Clang before version 9 does not know in an attribute that an argument is constant (the effect CONSTANTS_UNKNOWN), but
   takes no function whose condition it cannot evaluate; its message then says so among the candidates. It evaluates
   none where another argument has a `&&` or `||`, so functions that take values have no such condition there. */
#if defined(__clang_major__) && __clang_major__ >= 9
#define PORTBAR_CONSTANT(value, words) PORTBAR_REFUSE(!__builtin_constant_p(value), words)
#define PORTBAR_CONSTANT_BESIDE(value, words) PORTBAR_CONSTANT(value, words)
#else
#define PORTBAR_CONSTANT(value, words) __attribute__((enable_if((value) == (value), "portbar: " words)))
#define PORTBAR_CONSTANT_BESIDE(value, words)
#endif
${defines("PORTBAR_IS_WIDE")}
#define PORTBAR_IS_WIDE(scope) ((scope) != memory_scope_sub_group && (scope) != memory_scope_work_group)
${defines("PORTBAR_SYSTEM_RULE")}
% if "all_svm_devices" in scopes:
#define PORTBAR_SYSTEM_RULE
% else:
#define PORTBAR_SYSTEM_RULE PORTBAR_REFUSE(scope == memory_scope_all_svm_devices, "${refused["all_svm_devices"]}")
% endif
${defines("PORTBAR_REACH_RULE")}
% if "ordering" in refused:
#define PORTBAR_REACH_RULE(order) <%text>\</%text>
    PORTBAR_REFUSE((order) != memory_order_relaxed && PORTBAR_IS_WIDE(scope), <%text>\</%text>
                   "${refused["ordering"]}; use memory_scope_work_group or memory_order_relaxed")
% else:
#define PORTBAR_REACH_RULE(order)
% endif
${defines("PORTBAR_SEQ_CST_RULE")}
% if "seq_cst" in refused:
#define PORTBAR_SEQ_CST_RULE(o) PORTBAR_REFUSE((o) == memory_order_seq_cst, "${refused["seq_cst"]}")
% else:
#define PORTBAR_SEQ_CST_RULE(o)
% endif
${defines("PORTBAR_IS_ORDER")}
<%text>#define PORTBAR_IS_ORDER(o) \
    ((o) == memory_order_relaxed || (o) == memory_order_acquire || (o) == memory_order_release \
     || (o) == memory_order_acq_rel || (o) == memory_order_seq_cst)
${defines("PORTBAR_ORDER_RULE")}
#define PORTBAR_ORDER_RULE(o, constant) \
    PORTBAR_SEQ_CST_RULE(o) \
    constant(o, "the memory order of an atomic operation must be a constant such as memory_order_acquire") \
    PORTBAR_REFUSE(!PORTBAR_IS_ORDER(o), \
                   "the memory order must be one of memory_order_relaxed, _acquire, _release, _acq_rel, _seq_cst")
${defines("PORTBAR_SCOPE_RULE")}
#define PORTBAR_SCOPE_RULE(order, constant) \
    constant(scope, "the memory scope of an atomic operation must be a constant such as memory_scope_device") \
    PORTBAR_REFUSE(PORTBAR_IS_WIDE(scope) && scope != memory_scope_device && scope != memory_scope_all_svm_devices, \
                   "the memory scope must be one of memory_scope_sub_group, _work_group, _device, _all_svm_devices") \
    PORTBAR_SYSTEM_RULE PORTBAR_REACH_RULE(order)
${defines("PORTBAR_READ_RULES")}
#define PORTBAR_READ_RULES(constant) \
    PORTBAR_ORDER_RULE(order, constant) PORTBAR_SCOPE_RULE(order, constant) \
    PORTBAR_REFUSE(order == memory_order_release || order == memory_order_acq_rel, \
                   "a load cannot release: its order is memory_order_relaxed, _acquire or _seq_cst")
${defines("PORTBAR_LOAD_RULES")}
#define PORTBAR_LOAD_RULES PORTBAR_READ_RULES(PORTBAR_CONSTANT)
${defines("PORTBAR_WAIT_RULES")}
#define PORTBAR_WAIT_RULES PORTBAR_READ_RULES(PORTBAR_CONSTANT_BESIDE)
${defines("PORTBAR_STORE_RULES")}
#define PORTBAR_STORE_RULES \
    PORTBAR_ORDER_RULE(order, PORTBAR_CONSTANT_BESIDE) PORTBAR_SCOPE_RULE(order, PORTBAR_CONSTANT_BESIDE) \
    PORTBAR_REFUSE(order == memory_order_acquire || order == memory_order_acq_rel, \
                   "a store cannot acquire: its order is memory_order_relaxed, _release or _seq_cst")
${defines("PORTBAR_RMW_RULES")}
#define PORTBAR_RMW_RULES \
    PORTBAR_ORDER_RULE(order, PORTBAR_CONSTANT_BESIDE) PORTBAR_SCOPE_RULE(order, PORTBAR_CONSTANT_BESIDE)
${defines("PORTBAR_FENCE_RULES")}
#define PORTBAR_FENCE_RULES \
    PORTBAR_ORDER_RULE(order, PORTBAR_CONSTANT) PORTBAR_SCOPE_RULE(order, PORTBAR_CONSTANT)
${defines("PORTBAR_CAS_RULES")}
#define PORTBAR_CAS_RULES \
    PORTBAR_ORDER_RULE(success, PORTBAR_CONSTANT_BESIDE) PORTBAR_ORDER_RULE(failure, PORTBAR_CONSTANT_BESIDE) \
    PORTBAR_SCOPE_RULE(success, PORTBAR_CONSTANT_BESIDE) \
    PORTBAR_REFUSE(failure == memory_order_release || failure == memory_order_acq_rel, \
                   "a compare_exchange that fails cannot release: its failure order is memory_order_relaxed, " \
                   "_acquire or _seq_cst") \
    PORTBAR_REFUSE((failure == memory_order_acquire \
                    && (success == memory_order_relaxed || success == memory_order_release)) \
                       || (failure == memory_order_seq_cst && success != memory_order_seq_cst), \
                   "the failure order of a compare_exchange must not be stronger than its success order")
</%text>
</%def>
<%def name="lost_race()">
${defines("portbar_lost_race")}
/* After a compare-exchange that another work-item won. */
static inline __attribute__((always_inline)) void portbar_lost_race(void)
{
}
</%def>
<%def name="helpers()">
${defines("portbar_between_polls")}
/* Called after each 64 polls of a wait. */
static inline __attribute__((always_inline)) void portbar_between_polls(uint round)
{
% if yields:
    portbar_yield(round);
% else:
    (void)round;
% endif
}
% if rolled_polls:

${defines("PORTBAR_ROLLED_POLLS")}
/* A number of polls that the compiler cannot know: unrolled, they would fill the instruction cache. */
#define PORTBAR_ROLLED_POLLS(polls) ((polls) + ((uint)get_global_size(0) == 0u ? 1u : 0u))
% endif

${defines("PORTBAR_WORD_OF", "PORTBAR_SHIFT_OF")}
/* The aligned word of 32 bits around a smaller object, and where in it the object lies. */
#define PORTBAR_WORD_OF(type, p) ((type)((size_t)(p) & ~(size_t)3))
#ifdef __ENDIAN_LITTLE__
#define PORTBAR_SHIFT_OF(p, bits) ((uint)((size_t)(p) & 3u) * 8u)
#else
#define PORTBAR_SHIFT_OF(p, bits) (32u - (bits) - (uint)((size_t)(p) & 3u) * 8u)
#endif

${group()}
/* Order-preserving integer keys of floats, -0.0 below +0.0; NaNs sort beyond the infinities. */
% for bits, word in ((16, "ushort"), (32, "uint"), (64, "ulong")):
% if word in floats:
${defines("portbar_float_key", of=word)}
static inline __attribute__((overloadable, always_inline)) ${word} portbar_float_key(${word} bits)
{
    return (${word})(bits >> ${bits - 1} ? ~bits : bits | ((${word})1 << ${bits - 1}));
}
${defines("portbar_is_nan", of=word)}
static inline __attribute__((overloadable, always_inline)) bool portbar_is_nan(${word} bits)
{
    return (${word})(bits << 1) > (${word})${floats[word]};
}
% endif
% endfor
${end()}
</%def>
<%!
    from portbar.primitives.atomics_table import guards, pointer_to as at
    from portbar.rendering.folding import begin, finish

    def flags(space):
        return {
            "global": "CLK_GLOBAL_MEM_FENCE",
            "local": "CLK_LOCAL_MEM_FENCE",
            "generic": "PORTBAR_BOTH_FENCES",
        }[space]

    def raw(kind, space, name, value):
        """A call of a raw operation on the bits of a whole word."""
        return f"portbar_raw_{name}(({at(space, kind.word)})p, {value}, order, scope)"
%>
<%def name="operations()">
${defines("portbar_atomic_work_item_fence")}
/* Fence over the address spaces in `flags`, of an order and scope; no fence for relaxed. Caller: any work-item. Order:
   the arguments `order` and `scope`. Cost: one fence. */
PORTBAR_ATOMIC void portbar_atomic_work_item_fence(cl_mem_fence_flags flags, int order, int scope)
    PORTBAR_FENCE_RULES
{
    portbar_raw_fence(flags, order, scope);
}
<% types = [kind.made_uniform() if folding else kind for kind in types_offered] %>\

${group()}
/* ---- Atomic operations of OpenCL C, on pointers to global, local and generic memory where the device has them.
   Caller: any work-item. Order: the arguments `order` (or `success` and `failure`) and `scope`. Result: the value
   found, for the caller; of a compare_exchange whether it stored, with the value found in `*expected`. Cost: one
   instruction where the device has it, otherwise a loop of compare-exchanges. */
% for space in spaces:

${group()}
/* Pointers to ${space} memory. */

${guards(space)[0]}\
% for kind in types:
<%
    T, bits = kind.name, kind.bits_type
    P = at(space, T)
    native_small = kind.is_small and small_access
%>\
${begin(folding, ("FLOAT" if kind.kind == "float" else "SMALL" if kind.is_small else "INTEGER") + "_ATOMICS")}\
% if kind.is_small:
${defines("portbar_atomic_load_explicit", of=P)}
PORTBAR_ATOMIC ${T} portbar_atomic_load_explicit(const ${P}p, int order, int scope)
    PORTBAR_LOAD_RULES
{
% if native_small:
    const ${bits} found = portbar_raw_load((${at(space, bits)})p, order, scope);
% else:
    const uint word = ${small_word}_load(PORTBAR_WORD_OF(${at(space, "uint")}, p), order, scope);
    const ${bits} found = (${bits})(word >> PORTBAR_SHIFT_OF(p, ${kind.bits}));
% endif
    return ${kind.from_bits("found")};
}
% if native_small:
${defines("portbar_atomic_store_explicit", of=P)}
PORTBAR_ATOMIC void portbar_atomic_store_explicit(${P}p, ${T} v, int order, int scope)
    PORTBAR_STORE_RULES
{
    portbar_raw_store((${at(space, bits)})p, ${kind.to_bits("v")}, order, scope);
}
% endif
${defines("portbar_small_compare_exchange", of=P)}
PORTBAR_ATOMIC bool portbar_small_compare_exchange(${P}p, private ${T} *expected, ${T} desired,
                                                   int success, int failure, int scope)
{
    ${at(space, "uint")}word = PORTBAR_WORD_OF(${at(space, "uint")}, p);
    const uint shift = PORTBAR_SHIFT_OF(p, ${kind.bits}), mask = ${"0xffu" if kind.bits == 8 else "0xffffu"} << shift;
    const ${bits} wanted = ${kind.to_bits("*expected")};
    bool same;
    PORTBAR_LOOP_BEFORE(${flags(space)}, success, scope);
    uint seen = ${small_word}_load(word, PORTBAR_LOOP_ORDER(failure), scope);
    for (;;) {
        same = (${bits})(seen >> shift) == wanted;
        if (!same)
            break;
        const uint changed = (seen & ~mask) | ((uint)${kind.to_bits("desired")} << shift);
        const uint before = ${small_word}_compare_exchange(word, seen, changed, PORTBAR_LOOP_ORDER(success),
                                                         PORTBAR_LOOP_ORDER(failure), scope);
        if (before == seen)
            break;
        portbar_lost_race();
        seen = before;  /* a neighbour changed, or this one did */
    }
    PORTBAR_LOOP_AFTER(${flags(space)}, same ? success : failure, scope);
    if (!same) {
        const ${bits} found = (${bits})(seen >> shift);
        *expected = ${kind.from_bits("found")};
    }
    return same;
}
${defines("portbar_atomic_compare_exchange_strong_explicit", of=P)}
PORTBAR_ATOMIC bool
portbar_atomic_compare_exchange_strong_explicit(${P}p, private ${T} *expected, ${T} desired,
                                                int success, int failure, int scope)
    PORTBAR_CAS_RULES
{
    return portbar_small_compare_exchange(p, expected, desired, success, failure, scope);
}
% for op in (([] if native_small else ["store"]) + ["exchange", "add", "min", "max"] + ([] if kind.kind == "float" else ["sub", "and", "or", "xor"])):
${small_rmw(kind, space, op, P)}\
% endfor
% else:
<% word = kind.word %>\
${defines("portbar_atomic_load_explicit", of=P)}
PORTBAR_ATOMIC ${T} portbar_atomic_load_explicit(const ${P}p, int order, int scope)
    PORTBAR_LOAD_RULES
{
    return ${kind.from_bits(f"portbar_raw_load(({at(space, word)})p, order, scope)")};
}
${defines("portbar_atomic_store_explicit", of=P)}
PORTBAR_ATOMIC void portbar_atomic_store_explicit(${P}p, ${T} v, int order, int scope)
    PORTBAR_STORE_RULES
{
    portbar_raw_store((${at(space, word)})p, ${kind.to_bits("v")}, order, scope);
}
${rmw(kind, P, "exchange", kind.from_bits(raw(kind, space, "exchange", kind.to_bits("v"))))}\
${defines("portbar_atomic_compare_exchange_strong_explicit", of=P)}
PORTBAR_ATOMIC bool
portbar_atomic_compare_exchange_strong_explicit(${P}p, private ${T} *expected, ${T} desired,
                                                int success, int failure, int scope)
    PORTBAR_CAS_RULES
{
    const ${word} wanted = ${kind.to_bits("*expected")};
    const ${word} found = portbar_raw_compare_exchange((${at(space, word)})p, wanted, ${kind.to_bits("desired")}, success,
                                                 failure, scope);
    if (found != wanted)
        *expected = ${kind.from_bits("found")};
    return found == wanted;
}
% if kind.kind == "float":
% for op in ("min", "max"):
${word_loop(kind, space, op, P)}\
% endfor
${finish(folding)}${begin(folding, "FLOAT_ADDITIONS")}\
% if (T, space) in native_add:
${rmw(kind, P, "fetch_add", "portbar_raw_add(p, v, order, scope)")}\
% else:
${word_loop(kind, space, "add", P)}\
% endif
% else:
${rmw(kind, P, "fetch_sub", kind.from_bits(raw(kind, space, "add", f"({word})0 - {kind.to_bits('v')}")))}\
% for op in ("add", "and", "or", "xor"):
${rmw(kind, P, f"fetch_{op}", kind.from_bits(raw(kind, space, op, kind.to_bits("v"))))}\
% endfor
% for op in ("min", "max"):
${rmw(kind, P, f"fetch_{op}", f"portbar_raw_{op}(p, v, order, scope)")}\
% endfor
% if kind.kind == "uint":
${finish(folding)}${begin(folding, "WRAPPING_ATOMICS")}\
% for op in ("inc", "dec"):
% if T == "uint" and wraps:
${rmw(kind, P, f"fetch_{op}", f"portbar_raw_{op}(p, v, order, scope)")}\
% else:
${word_loop(kind, space, op, P)}\
% endif
% endfor
% endif
% endif
% endif
% if kind.kind == "float":
${rmw(kind, P, "fetch_sub", f"portbar_{'raw' if (T, space) in native_add else 'float'}_add(p, -v, order, scope)")}\
% endif
${finish(folding)}${begin(folding, "WAITS")}\
${defines("portbar_poll_while", of=P)}
PORTBAR_ATOMIC bool portbar_poll_while(${P}p, ${T} old, int order, int scope, uint polls)
{
<%
    def seen(order):
        if kind.is_small and not native_small:
            word = f'{small_word}_load(PORTBAR_WORD_OF({at(space, "uint")}, p), {order}, scope)'
            return f"({bits})({word} >> PORTBAR_SHIFT_OF(p, {kind.bits}))"
        return f"portbar_raw_load(({at(space, bits)})p, {order}, scope)"
    poll = f"*({at(space, bits)})p" if volatile_polls else seen("memory_order_relaxed")
%>\
% if acquire_polls:
    for (uint i = 0; i < polls; ++i)
        if (${seen("order")} != ${kind.to_bits("old")})
            return true;
    return false;
% else:
    for (uint i = 0; i < ${rolled("polls")}; ++i)
        if (${poll} != ${kind.to_bits("old")})
            break;
    /* Polls order nothing. */
    return ${seen("order")} != ${kind.to_bits("old")};
% endif
}
${defines("portbar_wait_watched", of=P)}
PORTBAR_ATOMIC uint
portbar_wait_watched(volatile global uint *abort, uint rounds, ${P}p, ${T} old, int order,
                     int scope, uint polls)
    PORTBAR_WAIT_RULES
{
    (void)abort;
    (void)rounds;
    for (uint round = 0; polls != 0u; ++round) {
        const uint now = min(polls, 64u);
        if (portbar_poll_while(p, old, order, scope, now))
            return PORTBAR_WAIT_REACHED;
        polls -= now;
        portbar_between_polls(round);
    }
    return PORTBAR_WAIT_DRAIN;
}
${defines("portbar_wait_watched", of=P)}
PORTBAR_ATOMIC uint
portbar_wait_watched(volatile global uint *abort, uint rounds, ${P}p, ${T} old, int order,
                     int scope)
    PORTBAR_WAIT_RULES
{
    for (uint round = 0; round < rounds; ++round) {
        if (portbar_poll_while(p, old, order, scope, 64u))
            return PORTBAR_WAIT_REACHED;
        if (abort != 0 && portbar_raw_load(abort, memory_order_relaxed, memory_scope_device) != 0u)
            return PORTBAR_WAIT_DRAIN;
        portbar_between_polls(round);
    }
    return PORTBAR_WAIT_LIMIT;
}
${finish(folding)}\
% endfor
% for kind in ("int", "uint"):
${begin(folding, "FLAGS")}\
${defines("portbar_atomic_flag_test_and_set_explicit", of=at(space, kind))}
PORTBAR_ATOMIC bool portbar_atomic_flag_test_and_set_explicit(${at(space, kind)}p, int order, int scope)
    PORTBAR_RMW_RULES
{
    return portbar_raw_exchange((${at(space, "uint")})p, 1u, order, scope) != 0u;
}
${defines("portbar_atomic_flag_clear_explicit", of=at(space, kind))}
PORTBAR_ATOMIC void portbar_atomic_flag_clear_explicit(${at(space, kind)}p, int order, int scope)
    PORTBAR_STORE_RULES
{
    portbar_raw_store((${at(space, "uint")})p, 0u, order, scope);
}
${finish(folding)}\
% endfor
${end()}
${guards(space)[1]}\
% endfor
${end()}
</%def>
<%def name="rmw(kind, P, name, value)">\
${defines(f"portbar_atomic_{name}_explicit", of=P)}
PORTBAR_ATOMIC ${kind.name} portbar_atomic_${name}_explicit(${P}p, ${kind.name} v, int order, int scope)
    PORTBAR_RMW_RULES
{
    return ${value};
}
</%def>
<%def name="word_loop(kind, space, op, P)">
<%
    T, bits, word = kind.name, kind.bits_type, kind.word
    W = at(space, word)
    inner = f"portbar_float_{op}" if kind.kind == "float" else f"portbar_wrap_{op}"
%>\
${group()}
/* A compare-exchange loop: the device has no such operation with these rules. */
${defines(inner, of=P)}
PORTBAR_ATOMIC ${T} ${inner}(${P}p, ${T} v, int order, int scope)
{
    PORTBAR_LOOP_BEFORE(${flags(space)}, order, scope);
    ${word} seen = ${f"portbar_raw_load(({W})p, memory_order_relaxed, scope)" if op in ("min", "max") else f"PORTBAR_GUESS(({W})p, scope)"};
    for (;;) {
        const ${word} changed = ${value_of(kind, op, "seen")};
% if op in ("min", "max"):
        /* Nothing to write, and no release that a write would have to carry. */
        if (changed == seen && order == memory_order_relaxed)
            break;
% endif
        const ${word} before = portbar_raw_compare_exchange((${W})p, seen, changed,
                                                     PORTBAR_LOOP_ORDER(order), memory_order_relaxed, scope);
        if (before == seen)
            break;
        portbar_lost_race();
        seen = before;
    }
    PORTBAR_LOOP_AFTER(${flags(space)}, order, scope);
    return ${kind.from_bits("seen")};
}
${end()}
${rmw(kind, P, f"fetch_{op}", f"{inner}(p, v, order, scope)")}\
</%def>
<%def name="small_rmw(kind, space, op, P)">
<%
    T, bits = kind.name, kind.bits_type
    W = at(space, "uint")
    inner = f"portbar_float_{op}" if kind.kind == "float" and op in ("add", "min", "max") else f"portbar_small_{op}"
%>\
${defines(inner, of=P)}
PORTBAR_ATOMIC ${T} ${inner}(${P}p, ${T} v, int order, int scope)
{
    ${W}word = PORTBAR_WORD_OF(${W}, p);
    const uint shift = PORTBAR_SHIFT_OF(p, ${kind.bits}), mask = ${"0xffu" if kind.bits == 8 else "0xffffu"} << shift;
    PORTBAR_LOOP_BEFORE(${flags(space)}, order, scope);
    uint seen = ${"portbar_small_word_load(word, memory_order_relaxed, scope)" if small_word == "portbar_small_word" else "PORTBAR_GUESS(word, scope)"};
    ${bits} found;
    for (;;) {
        found = (${bits})(seen >> shift);
        const uint changed = (seen & ~mask) | ((uint)${value_of(kind, op, "found")} << shift);
        const uint before = ${small_word}_compare_exchange(word, seen, changed, PORTBAR_LOOP_ORDER(order),
                                                         memory_order_relaxed, scope);
        if (before == seen)
            break;
        portbar_lost_race();
        seen = before;
    }
    PORTBAR_LOOP_AFTER(${flags(space)}, order, scope);
    return ${kind.from_bits("found")};
}
% if op == "store":
${defines("portbar_atomic_store_explicit", of=P)}
PORTBAR_ATOMIC void portbar_atomic_store_explicit(${P}p, ${T} v, int order, int scope)
    PORTBAR_STORE_RULES
{
    (void)${inner}(p, v, order, scope);
}
% else:
${rmw(kind, P, "exchange" if op == "exchange" else f"fetch_{op}", f"{inner}(p, v, order, scope)")}\
% endif
</%def>
<%def name="value_of(kind, op, found)" filter="trim">
<%
    T, bits = kind.name, kind.bits_type
    old, new = kind.from_bits(found), kind.to_bits("v")
    if op in ("store", "exchange"):
        text = new
    elif op == "inc":
        text = f"{found} >= v ? ({bits})0 : {found} + 1"
    elif op == "dec":
        text = f"{found} == 0 || {found} > v ? v : {found} - 1"
    elif op in ("min", "max") and kind.kind == "float":
        better = "<" if op == "min" else ">"
        text = (f"portbar_is_nan({new}) ? {found} : portbar_is_nan({found})\n            "
                f"|| portbar_float_key({new}) {better} portbar_float_key({found}) ? {new} : {found}")
    elif op in ("min", "max"):
        better = "<" if op == "min" else ">"
        text = f"(v {better} {old} ? {new} : {found})"
    elif op == "add" and kind.kind == "float":
        text = kind.to_bits(f"({T})({old} + v)")
    else:
        sign = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}[op]
        text = f"({bits})({found} {sign} {new})"
%>(${bits})(${text})
</%def>
<%def name="refusals()">
${group()}
/* Unsupported operations: calling one is a compile-time error. */
${defines("PORTBAR_UNAVAILABLE")}
#define PORTBAR_UNAVAILABLE(words) __attribute__((overloadable, unavailable("portbar: " words)))
<%
    SPACES = ("global", "local")
    INTEGER = "works on integers only; use a compare_exchange loop on the bits if that is meant"
    WRAP = "works on uint and ulong only"
%>
% for space in SPACES:
% for kind in types_offered:
${begin(folding, "REFUSALS")}\
% if kind.kind == "float":
% for op in ("and", "or", "xor"):
${defines(f"portbar_atomic_fetch_{op}_explicit", of=f"volatile {space} {kind.name} *")}
void PORTBAR_UNAVAILABLE("fetch_${op} ${INTEGER}")
portbar_atomic_fetch_${op}_explicit(volatile ${space} ${kind.name} *p, ${kind.name} v, int order, int scope);
% endfor
% endif
% if not (kind.kind == "uint" and kind.bits >= 32):
% for op in ("inc", "dec"):
${defines(f"portbar_atomic_fetch_{op}_explicit", of=f"volatile {space} {kind.name} *")}
void PORTBAR_UNAVAILABLE("fetch_${op} ${WRAP}")
portbar_atomic_fetch_${op}_explicit(volatile ${space} ${kind.name} *p, ${kind.name} v, int order, int scope);
% endfor
% endif
${finish(folding)}\
% endfor
% for kind, why in withheld:
${begin(folding, "WITHHELD")}\
<% value = "float" if kind.name == "half" else kind.name %>\
${defines("portbar_atomic_load_explicit", of=f"volatile {space} {kind.name} *")}
${value} PORTBAR_UNAVAILABLE("${why}")
portbar_atomic_load_explicit(volatile ${space} ${kind.name} *p, int order, int scope);
${defines("portbar_atomic_store_explicit", of=f"volatile {space} {kind.name} *")}
void PORTBAR_UNAVAILABLE("${why}")
portbar_atomic_store_explicit(volatile ${space} ${kind.name} *p, ${value} v, int order, int scope);
${defines("portbar_atomic_compare_exchange_strong_explicit", of=f"volatile {space} {kind.name} *")}
bool PORTBAR_UNAVAILABLE("${why}")
portbar_atomic_compare_exchange_strong_explicit(volatile ${space} ${kind.name} *p, private ${kind.name} *expected,
                                                ${value} desired, int success, int failure, int scope);
${defines("portbar_wait_watched", of=f"volatile {space} {kind.name} *")}
uint PORTBAR_UNAVAILABLE("${why}")
portbar_wait_watched(volatile global uint *abort, uint rounds, volatile ${space} ${kind.name} *p, ${value} old,
                     int order, int scope, uint polls);
% for op in ("exchange", "fetch_add", "fetch_sub", "fetch_min", "fetch_max", "fetch_and", "fetch_or", "fetch_xor", "fetch_inc", "fetch_dec"):
${defines(f"portbar_atomic_{op}_explicit", of=f"volatile {space} {kind.name} *")}
${value} PORTBAR_UNAVAILABLE("${why}")
portbar_atomic_${op}_explicit(volatile ${space} ${kind.name} *p, ${value} v, int order, int scope);
% endfor
${finish(folding)}\
% endfor
% endfor
${end()}
</%def>
<%def name="short_forms()">
${defines("portbar_atomic_compare_exchange_weak_explicit")}
/* A weak compare_exchange may fail without cause; here it never does. */
#define portbar_atomic_compare_exchange_weak_explicit portbar_atomic_compare_exchange_strong_explicit

${group()}
/* Forms that return nothing: compilers drop an unused result. Caller: any work-item. Order: the arguments `order` and
   `scope`. Cost: at most that of the fetch_ form. */
% for op in ("add", "sub", "min", "max", "and", "or", "xor", "inc", "dec"):
${defines(f"portbar_atomic_{op}_explicit")}
#define portbar_atomic_${op}_explicit(p, v, order, scope) <%text>\</%text>
    ((void)portbar_atomic_fetch_${op}_explicit(p, v, order, scope))
% endfor
${end()}

${group()}
/* Rounds of polls of a wait in a kernel without a grid, and its action after the last one. Any work-item. */
${defines("portbar_lone_rounds")}
static inline uint portbar_lone_rounds(const uint4 launch)
{
    return launch.z != 0u ? launch.z : PORTBAR_ATOMIC_WAIT_POLLS / 64u + 1u;
}
${defines("portbar_lone_reported")}
static inline bool portbar_lone_reported(volatile global uint *state, const uint4 launch, uint outcome)
{
    if (outcome == PORTBAR_WAIT_LIMIT && state != 0)
        portbar_raw_store(state + launch.x, ${wait_fault}u, memory_order_relaxed, memory_scope_device);
    return outcome == PORTBAR_WAIT_REACHED;
}
${defines("PORTBAR_LONE_ROUNDS")}
#define PORTBAR_LONE_ROUNDS portbar_lone_rounds((uint4)(portbar_reduction_launch))
${defines("PORTBAR_LONE_REPORTED")}
#define PORTBAR_LONE_REPORTED(outcome) <%text>\</%text>
    portbar_lone_reported((volatile global uint *)portbar_reduction_param, (uint4)(portbar_reduction_launch), outcome)
${end()}
${defines("PORTBAR_WATCH", "PORTBAR_REPORTED")}
/* Other arguments of a wait: an abort flag or none, and its limit in rounds of 64 polls; and the receiver of its
   outcome. portbar/device_barrier.h replaces these by the grid. */
#ifndef PORTBAR_WATCH
#define PORTBAR_WATCH 0, PORTBAR_LONE_ROUNDS
#define PORTBAR_REPORTED(outcome) PORTBAR_LONE_REPORTED(outcome)
#endif
${defines("portbar_atomic_wait_explicit")}
/* Waits until the bits of `*p` differ from those of `old`; a further argument sets the polls after which this wait
   gives up without a report. Caller: any work-item. Order: the arguments `order` and `scope`, when true. Result: false
   when it gave up. Cost: a load per poll. */
#define portbar_atomic_wait_explicit(arguments...) PORTBAR_REPORTED(portbar_wait_watched(PORTBAR_WATCH, arguments))

${defines("portbar_atomic_notify_one", "portbar_atomic_notify_all")}
/* Does nothing: waiters poll, so no waiter needs a wake-up. Caller: any work-item. Cost: none. */
#define portbar_atomic_notify_one(p) ((void)(p))
#define portbar_atomic_notify_all(p) ((void)(p))

${group()}
/* Forms without order and scope. Caller: any work-item. Order: sequentially consistent, device scope. Result and cost:
   those of the form with `_explicit`. */
${defines("portbar_atomic_load")}
#define portbar_atomic_load(p) portbar_atomic_load_explicit(p, memory_order_seq_cst, memory_scope_device)
${defines("portbar_atomic_store")}
#define portbar_atomic_store(p, v) portbar_atomic_store_explicit(p, v, memory_order_seq_cst, memory_scope_device)
% for form in ("strong", "weak"):
${defines(f"portbar_atomic_compare_exchange_{form}")}
#define portbar_atomic_compare_exchange_${form}(p, expected, desired) <%text>\</%text>
    portbar_atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_seq_cst, memory_order_seq_cst, <%text>\</%text>
                                                    memory_scope_device)
% endfor
${defines("portbar_atomic_exchange")}
#define portbar_atomic_exchange(p, v) portbar_atomic_exchange_explicit(p, v, memory_order_seq_cst, memory_scope_device)
% for op in ("add", "sub", "min", "max", "and", "or", "xor", "inc", "dec"):
${defines(f"portbar_atomic_fetch_{op}")}
#define portbar_atomic_fetch_${op}(p, v) portbar_atomic_fetch_${op}_explicit(p, v, memory_order_seq_cst, memory_scope_device)
${defines(f"portbar_atomic_{op}")}
#define portbar_atomic_${op}(p, v) ((void)portbar_atomic_fetch_${op}(p, v))
% endfor
${defines("portbar_atomic_wait")}
#define portbar_atomic_wait(p, old) portbar_atomic_wait_explicit(p, old, memory_order_seq_cst, memory_scope_device)
${defines("portbar_atomic_flag_test_and_set")}
#define portbar_atomic_flag_test_and_set(p) <%text>\</%text>
    portbar_atomic_flag_test_and_set_explicit(p, memory_order_seq_cst, memory_scope_device)
${defines("portbar_atomic_flag_clear")}
#define portbar_atomic_flag_clear(p) portbar_atomic_flag_clear_explicit(p, memory_order_seq_cst, memory_scope_device)
${end()}
</%def>
