## -*- coding: utf-8 -*-
## What every strategy of portbar/split_barrier.h shares: macros, derived members, and copies.
<%def name="macros()">
/* What the strategy carries beyond waits that all work-items of the group reach, for kernels that adapt. */
% for name in features:
#define PORTBAR_SPLIT_BARRIER_${name.upper()} 1
% endfor
#define PORTBAR_COPY_ASYNC 1
% if hardware_copies:
#define PORTBAR_COPY_ASYNC_HARDWARE 1
% endif

/* Faults that a debug build finds; see portbar_split_barrier_fault. */
% for name, number in faults.items():
#define PORTBAR_FAULT_${name} ${number}u
% endfor

/* Polls that a wait makes before it gives up: some seconds on this device. */
#ifndef PORTBAR_SPLIT_BARRIER_POLLS
#define PORTBAR_SPLIT_BARRIER_POLLS ${polls}u
#endif

/* What an arrival returns and a wait takes. Opaque. */
typedef ulong portbar_arrival_token;

/* Largest expected and pending count. */
static inline __attribute__((always_inline)) uint portbar_split_barrier_max(void)
{
    return ${most}u;
}
</%def>
<%def name="derived()">
/* Arrives and waits. Caller, order and result as for the two halves. */
static inline __attribute__((always_inline)) bool portbar_split_barrier_arrive_and_wait(local portbar_split_barrier *b)
{
    return portbar_split_barrier_wait(b, portbar_split_barrier_arrive(b));
}
</%def>
<%def name="copies()">
/* Starts a copy of `bytes` (a constant: 4, 8 or 16) bytes from global to local memory, both aligned to as many. Others see it
   after a wait on a barrier on which this work-item called portbar_split_barrier_arrive_copy_async or its _no_inc form; this
   work-item also after portbar_copy_async_wait. Caller: any work-item. Cost: ${"one cp.async, which runs on its own" if hardware_copies else "a load and a store: this device has no copies that run on their own"}. */
static inline __attribute__((always_inline)) void portbar_copy_async(local void *dst, const global void *src, uint bytes)
{
% if hardware_copies:
    if (bytes == 4u)
        __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "l"(dst), "l"(src) : "memory");
    else if (bytes == 8u)
        __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "l"(dst), "l"(src) : "memory");
    else
        __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "l"(dst), "l"(src) : "memory");
% else:
    if (bytes == 4u)
        *(local uint *)dst = *(const global uint *)src;
    else if (bytes == 8u)
        *(local uint2 *)dst = *(const global uint2 *)src;
    else
        *(local uint4 *)dst = *(const global uint4 *)src;
% endif
}

/* Waits until this work-item's own copies are done, and visible to it. Caller: any work-item. */
static inline __attribute__((always_inline)) void portbar_copy_async_wait(void)
{
% if hardware_copies:
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
% endif
}

/* Starts a copy of an array of `bytes` (a multiple of 4), shared out among the work-items of the group; 16 bytes at a time where both
   pointers are aligned to that, else 4. Each work-item's part completes as its own copies do. Caller: all work-items of the
   group. */
static inline __attribute__((always_inline)) void portbar_copy_async_group(local void *dst, const global void *src, uint bytes)
{
    const uint me = (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
    const uint all = (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
    const bool wide = ((((size_t)dst) | ((size_t)src)) & 15u) == 0u;
    const uint head = wide ? bytes / 16u : 0u;
    for (uint i = me; i < head; i += all)
        portbar_copy_async((local uint4 *)dst + i, (const global uint4 *)src + i, 16u);
    for (uint i = head * 4u + me; i < bytes / 4u; i += all)
        portbar_copy_async((local uint *)dst + i, (const global uint *)src + i, 4u);
}
</%def>
