## -*- coding: utf-8 -*-
## Atomics by those of OpenCL C 2.0.
<%def name="operation(op, kind, space, order=None)">\
<%
    obj = f"(volatile {'PORTBAR_GENERIC' if space == 'generic' else space} atomic_{kind} *)p"
    name = "atomic_" + ("" if op in ("load", "store", "exchange") else "fetch_") + op + "_explicit"
    fixed = f"memory_order_{order}, memory_scope_device)"
%>\
% if op == "compare_exchange":
    ${kind} found = expected;
% if order:
    (void)atomic_compare_exchange_strong_explicit(${obj}, &found, desired,
                                                  memory_order_${order}, memory_order_acquire, memory_scope_device);
% else:
    (void)PORTBAR_C11_CAS(${obj}, &found, desired);
% endif
    return found;
% elif op == "load":
    return ${f"{name}({obj}, {fixed}" if order else f"PORTBAR_C11_LOAD({name}, {obj})"};
% elif op == "store":
    ${f"{name}({obj}, v, {fixed}" if order else f"PORTBAR_C11_STORE({name}, {obj}, v)"};
% else:
    return ${f"{name}({obj}, v, {fixed}" if order else f"PORTBAR_C11_RMW({name}, {obj}, v)"};
% endif
</%def>
<%def name="fences()">
${group()}
/* OpenCL C's atomics get literals, since some compilers take nothing else, and the branches on constants go away. The
   scope is never narrower than asked for: a sub-group's is its work-group's. */
${defines("PORTBAR_LOOP_BEFORE")}
#define PORTBAR_LOOP_BEFORE(flags, order, scope)
${defines("PORTBAR_LOOP_ORDER")}
#define PORTBAR_LOOP_ORDER(order) (order)
${defines("PORTBAR_LOOP_AFTER")}
#define PORTBAR_LOOP_AFTER(flags, order, scope)
${defines("PORTBAR_C11_LOAD")}
<%text>#define PORTBAR_C11_LOAD(f, p) \
    (order == memory_order_relaxed ? PORTBAR_C11_LOAD_S(f, p, memory_order_relaxed) \
     : order == memory_order_acquire ? PORTBAR_C11_LOAD_S(f, p, memory_order_acquire) \
                                     : PORTBAR_C11_LOAD_S(f, p, memory_order_seq_cst))
${defines("PORTBAR_C11_STORE")}
#define PORTBAR_C11_STORE(f, p, v) \
    (order == memory_order_relaxed ? PORTBAR_C11_CALL_S(f, p, v, memory_order_relaxed) \
     : order == memory_order_release ? PORTBAR_C11_CALL_S(f, p, v, memory_order_release) \
                                     : PORTBAR_C11_CALL_S(f, p, v, memory_order_seq_cst))
${defines("PORTBAR_C11_RMW")}
#define PORTBAR_C11_RMW(f, p, v) \
    (order == memory_order_relaxed ? PORTBAR_C11_CALL_S(f, p, v, memory_order_relaxed) \
     : order == memory_order_acquire ? PORTBAR_C11_CALL_S(f, p, v, memory_order_acquire) \
     : order == memory_order_release ? PORTBAR_C11_CALL_S(f, p, v, memory_order_release) \
     : order == memory_order_acq_rel ? PORTBAR_C11_CALL_S(f, p, v, memory_order_acq_rel) \
                                     : PORTBAR_C11_CALL_S(f, p, v, memory_order_seq_cst))
</%text>${end()}
${defines("PORTBAR_C11_CAS")}<%text>
/* A failure order is relaxed, acquire or seq_cst, and never stronger than that of success. */
#define PORTBAR_C11_CAS(p, e, v) \
    (success == memory_order_relaxed ? PORTBAR_C11_CAS_S(p, e, v, memory_order_relaxed, memory_order_relaxed) \
     : success == memory_order_release ? PORTBAR_C11_CAS_S(p, e, v, memory_order_release, memory_order_relaxed) \
     : success == memory_order_acquire \
         ? (failure == memory_order_relaxed ? PORTBAR_C11_CAS_S(p, e, v, memory_order_acquire, memory_order_relaxed) \
                                            : PORTBAR_C11_CAS_S(p, e, v, memory_order_acquire, memory_order_acquire)) \
     : success == memory_order_acq_rel \
         ? (failure == memory_order_relaxed ? PORTBAR_C11_CAS_S(p, e, v, memory_order_acq_rel, memory_order_relaxed) \
                                            : PORTBAR_C11_CAS_S(p, e, v, memory_order_acq_rel, memory_order_acquire)) \
     : failure == memory_order_relaxed ? PORTBAR_C11_CAS_S(p, e, v, memory_order_seq_cst, memory_order_relaxed) \
     : failure == memory_order_acquire ? PORTBAR_C11_CAS_S(p, e, v, memory_order_seq_cst, memory_order_acquire) \
                                       : PORTBAR_C11_CAS_S(p, e, v, memory_order_seq_cst, memory_order_seq_cst))
</%text>
<%
    def scoped(call):
        narrow = call.replace("SCOPE", "memory_scope_work_group")
        text = f"scope == memory_scope_device ? {call.replace('SCOPE', 'memory_scope_device')} \\\n     : {narrow})"
        if "all_svm_devices" in scopes:
            text = f"scope == memory_scope_all_svm_devices ? {call.replace('SCOPE', 'memory_scope_all_svm_devices')} \\\n     : {text}"
        return "\\\n    (" + text
%>
${defines("PORTBAR_C11_LOAD_S")}
#define PORTBAR_C11_LOAD_S(f, p, o) ${scoped("f(p, o, SCOPE)")}
${defines("PORTBAR_C11_CALL_S")}
#define PORTBAR_C11_CALL_S(f, p, v, o) ${scoped("f(p, v, o, SCOPE)")}
${defines("PORTBAR_C11_CAS_S")}
#define PORTBAR_C11_CAS_S(p, e, v, o, u) ${scoped("atomic_compare_exchange_strong_explicit(p, e, v, o, u, SCOPE)")}

${defines("PORTBAR_C11_FENCE_S")}
#define PORTBAR_C11_FENCE_S(flags, o) ${scoped("atomic_work_item_fence(flags, o, SCOPE)")}
${defines("PORTBAR_C11_FENCE")}
<%text>#define PORTBAR_C11_FENCE(o) \
    do { \
        if (flags == CLK_GLOBAL_MEM_FENCE) \
            PORTBAR_C11_FENCE_S(CLK_GLOBAL_MEM_FENCE, o); \
        else if (flags == CLK_LOCAL_MEM_FENCE) \
            PORTBAR_C11_FENCE_S(CLK_LOCAL_MEM_FENCE, o); \
        else \
            PORTBAR_C11_FENCE_S(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE, o); \
    } while (0)
</%text>
${defines("portbar_raw_fence")}
/* Fence of an order and scope over the named address spaces; no fence for relaxed. The flags, too, are literals: some
   compilers take nothing else (the effect FENCE_FLAGS_FIXED). */
static inline __attribute__((always_inline)) void portbar_raw_fence(cl_mem_fence_flags flags, int order, int scope)
{
% for order in ("acquire", "release", "acq_rel", "seq_cst"):
    ${"" if loop.first else "else "}if (order == memory_order_${order})
        PORTBAR_C11_FENCE(memory_order_${order});
% endfor
}
</%def>
<%def name="small_words()">
${group()}
/* This device's compiler moves plain accesses of 16 bits past atomic operations on the 32 bits around them. OpenCL
   1.2's mem_fence stops it, whatever the order; the order has its own fences. */
% for space in ("global", "local"):
<% flags = f"CLK_{space.upper()}_MEM_FENCE" %>\
${defines("portbar_small_word_load", of=f"volatile {space} uint *")}
PORTBAR_RAW uint portbar_small_word_load(volatile ${space} uint *p, int order, int scope)
{
    portbar_raw_fence(${flags}, order == memory_order_seq_cst ? memory_order_seq_cst : memory_order_relaxed, scope);
    mem_fence(${flags});
    const uint found = atomic_or(p, 0u);
    mem_fence(${flags});
    portbar_raw_fence(${flags}, order, scope);
    return found;
}
${defines("portbar_small_word_compare_exchange", of=f"volatile {space} uint *")}
PORTBAR_RAW uint portbar_small_word_compare_exchange(volatile ${space} uint *p, uint expected, uint desired, int success,
                                                     int failure, int scope)
{
    portbar_raw_fence(${flags}, success == memory_order_acquire ? memory_order_relaxed : success, scope);
    mem_fence(${flags});
    const uint found = atomic_cmpxchg(p, expected, desired);
    mem_fence(${flags});
    portbar_raw_fence(${flags}, success == memory_order_release ? memory_order_relaxed : success, scope);
    (void)failure;  /* never stronger than success */
    return found;
}
% endfor
% if "generic" in spaces:
${group()}
#ifdef PORTBAR_GENERIC_ADDRESS_SPACE
${defines("portbar_small_word_load")}
PORTBAR_RAW uint portbar_small_word_load(volatile uint *p, int order, int scope)
{
    volatile local uint *here = to_local(p);
    return here ? portbar_small_word_load(here, order, scope) : portbar_small_word_load(to_global(p), order, scope);
}
${defines("portbar_small_word_compare_exchange")}
PORTBAR_RAW uint portbar_small_word_compare_exchange(volatile uint *p, uint expected, uint desired, int success, int failure,
                                                     int scope)
{
    volatile local uint *here = to_local(p);
    return here ? portbar_small_word_compare_exchange(here, expected, desired, success, failure, scope)
                : portbar_small_word_compare_exchange(to_global(p), expected, desired, success, failure, scope);
}
${end()}
#endif
% endif
${end()}
</%def>
