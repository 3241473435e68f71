## -*- coding: utf-8 -*-
## NVIDIA's mbarrier objects (PTX, sm_80 and later), as libcu++'s cuda::barrier and SYCL's extension use them.
<%def name="object()">
/* The object. Reserve it in local memory; its state is the hardware's. */
typedef struct __attribute__((aligned(8))) {
    ulong state;
} portbar_split_barrier;

/* Faults are found by debug builds (`Program(debug=True)`), which count in software. Always 0 here. */
static inline __attribute__((always_inline)) uint portbar_split_barrier_fault(local portbar_split_barrier *b)
{
    (void)b;
    return 0u;
}

/* Makes a barrier that `expected` arrivals complete. Caller: one work-item; then a barrier(CLK_LOCAL_MEM_FENCE) of all that use it. */
static inline __attribute__((always_inline)) void portbar_split_barrier_initialize(local portbar_split_barrier *b, uint expected)
{
    __asm__ volatile("mbarrier.init.shared.b64 [%0], %1;" :: "l"(b), "r"(expected) : "memory");
}

/* Ends a barrier, so that its memory may be used otherwise. Caller: one work-item, after a barrier() of all that used it. */
static inline __attribute__((always_inline)) void portbar_split_barrier_invalidate(local portbar_split_barrier *b)
{
    __asm__ volatile("mbarrier.inval.shared.b64 [%0];" :: "l"(b) : "memory");
}
</%def>
<%def name="arrivals()">
/* Arrives, without waiting: release order at work-group scope, local and global memory. The token is for the wait on this phase.
   Caller: any work-item. Cost: one instruction. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive(local portbar_split_barrier *b)
{
    portbar_arrival_token token;
    __asm__ volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "l"(b) : "memory");
    return token;
}
/* `count` arrivals at once, which must not complete the phase. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive_no_complete(local portbar_split_barrier *b, uint count)
{
    portbar_arrival_token token;
    __asm__ volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], %2;" : "=l"(token) : "l"(b), "r"(count) : "memory");
    return token;
}
/* `count` arrivals at once, which may complete the phase. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive_count(local portbar_split_barrier *b, uint count)
{
% if sm >= 90:
    portbar_arrival_token token;
    __asm__ volatile("mbarrier.arrive.shared.b64 %0, [%1], %2;" : "=l"(token) : "l"(b), "r"(count) : "memory");
    return token;
% else:
    /* Before sm_90 only one arrival may complete a phase. The token is that of the first, so that it tells what was pending. */
    if (count == 1u)
        return portbar_split_barrier_arrive(b);
    const portbar_arrival_token token = portbar_split_barrier_arrive_no_complete(b, count - 1u);
    (void)portbar_split_barrier_arrive(b);
    return token;
% endif
}
/* Arrives, and one arrival fewer is expected from the next phase on. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive_and_drop(local portbar_split_barrier *b)
{
    portbar_arrival_token token;
    __asm__ volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(token) : "l"(b) : "memory");
    return token;
}
/* `count` arrivals at once, which must not complete the phase, and as many fewer are expected from the next phase on. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive_and_drop_no_complete(local portbar_split_barrier *b, uint count)
{
    portbar_arrival_token token;
    __asm__ volatile("mbarrier.arrive_drop.noComplete.shared.b64 %0, [%1], %2;"
                     : "=l"(token) : "l"(b), "r"(count) : "memory");
    return token;
}
/* Arrives when this work-item's earlier copies are done, as one arrival beyond those expected. Caller: any work-item. */
static inline __attribute__((always_inline)) void portbar_split_barrier_arrive_copy_async(local portbar_split_barrier *b)
{
    __asm__ volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "l"(b) : "memory");
}
/* The same as one of the arrivals expected. */
static inline __attribute__((always_inline)) void portbar_split_barrier_arrive_copy_async_no_inc(local portbar_split_barrier *b)
{
    __asm__ volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "l"(b) : "memory");
}
/* Arrivals that were still pending just before the one that returned the token; the hardware takes arrivals that work-items of a
   sub-group make together as one, and their tokens tell the same. */
static inline __attribute__((always_inline)) uint portbar_split_barrier_pending_count(portbar_arrival_token token)
{
    uint pending;
    __asm__("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(token));
    return pending;
}
</%def>
<%def name="waits()">
% for form, argument, register, name in (("", "portbar_arrival_token token", "l", "token"), ("_parity", "uint parity", "r", "parity & 1u")):
<% suffix = ".parity" if form else "" %>\
/* Whether the phase is complete, without waiting. Acquire order when true: what was done before the arrivals is visible. Caller: any
   work-item. Cost: one instruction. */
static inline __attribute__((always_inline)) bool portbar_split_barrier_test_wait${form}(local portbar_split_barrier *b, ${argument})
{
    uint complete;
    __asm__ volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait${suffix}.shared.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(complete) : "l"(b), "${register}"(${name}) : "memory");
    return complete != 0u;
}
/* Waits for a phase, at most `polls` polls; true when it is complete. Acquire order, local and global memory. Caller: any work-item.${" A poll sleeps until the phase completes or the hardware's own limit." if sm >= 90 else ""} */
static inline __attribute__((always_inline)) bool portbar_split_barrier_try_wait${form}(local portbar_split_barrier *b, ${argument}, uint polls)
{
% if sm >= 90:
    for (uint i = 0; i < polls; ++i) {
        uint complete;
        __asm__ volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait${suffix}.shared.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                         : "=r"(complete) : "l"(b), "${register}"(${name}) : "memory");
        if (complete != 0u)
            return true;
    }
% else:
    for (uint i = 0; i < polls; ++i)
        if (portbar_split_barrier_test_wait${form}(b, ${"parity" if form else "token"}))
            return true;
% endif
    return false;
}
/* The same with the limit PORTBAR_SPLIT_BARRIER_POLLS, after which something is wrong. */
static inline __attribute__((always_inline)) bool portbar_split_barrier_wait${form}(local portbar_split_barrier *b, ${argument})
{
    return portbar_split_barrier_try_wait${form}(b, ${"parity" if form else "token"}, PORTBAR_SPLIT_BARRIER_POLLS);
}
% endfor
</%def>
