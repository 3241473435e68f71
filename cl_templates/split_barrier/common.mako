## -*- coding: utf-8 -*-
## The members of portbar/split_barrier.h and their contracts. Their bodies are defs of the chosen variant's template.
<%namespace name="own" file="${context['template']}"/>
<%def name="macros()">
${group()}
/* Uses that this device supports beyond waits that all work-items of the group reach, for kernels that adapt. */
% for name in features:
${feature(f"PORTBAR_SPLIT_BARRIER_{name.upper()}")}
% endfor
${feature("PORTBAR_COPY_ASYNC")}
% if hardware_copies:
${feature("PORTBAR_COPY_ASYNC_HARDWARE")}
% endif
${end()}

${group()}
/* Faults that a debug build finds; see portbar_split_barrier_fault. */
% for name, (number, _) in faults.items():
${defines(f"PORTBAR_FAULT_{name}")}
#define PORTBAR_FAULT_${name} ${number}u
% endfor
${end()}

${defines("PORTBAR_SPLIT_BARRIER_POLLS")}
/* Polls that a wait makes before it gives up: some seconds on this device. */
#ifndef PORTBAR_SPLIT_BARRIER_POLLS
#define PORTBAR_SPLIT_BARRIER_POLLS ${polls}u
#endif

${defines("PORTBAR_MEMBER")}
#define PORTBAR_MEMBER static inline __attribute__((always_inline))

${defines("portbar_arrival_token")}
/* Result of an arrival and argument of a wait. Opaque. */
typedef ulong portbar_arrival_token;
</%def>
<%def name="object()">
${defines("portbar_split_barrier")}
/* The object. Reserve it in local memory; its fields are portbar's own. */
${own.object()}\

${defines("portbar_split_barrier_max")}
/* Largest expected and pending count. Caller: any work-item. Cost: none: a constant. */
PORTBAR_MEMBER uint portbar_split_barrier_max(void)
{
    return ${most}u;
}

${defines("portbar_split_barrier_fault")}
/* The first fault that a debug build (`Program(debug=True)`) found with this barrier, 0 for none; always 0 in other
   builds. Caller: any work-item. Cost: a load in a debug build, otherwise none. */
PORTBAR_MEMBER uint portbar_split_barrier_fault(local portbar_split_barrier *b)
{
${own.fault()}\
}

${defines("portbar_split_barrier_initialize")}
/* Makes a barrier that `expected` arrivals complete. Caller: one work-item; then a barrier(CLK_LOCAL_MEM_FENCE) of all
   that use it. Cost: a few stores to local memory. */
PORTBAR_MEMBER void portbar_split_barrier_initialize(local portbar_split_barrier *b, uint expected)
{
${own.initialize()}\
}

${defines("portbar_split_barrier_invalidate")}
/* Ends a barrier, so that its memory may be used otherwise. Caller: one work-item, after a barrier() of all that used
   it. Cost: at most one store to local memory. */
PORTBAR_MEMBER void portbar_split_barrier_invalidate(local portbar_split_barrier *b)
{
${own.invalidate()}\
}
</%def>
<%def name="arrival(name, count, **how)">\
PORTBAR_MEMBER portbar_arrival_token
portbar_split_barrier_${name}(local portbar_split_barrier *b${", uint count" if count == "count" else ""})
{
${own.arrive(count, **how)}\
}
</%def>
<%def name="arrivals()">
${defines("portbar_split_barrier_arrive")}
/* Arrives, without waiting. The token is for the wait on this phase. Caller: any work-item. Order: release at
   work-group scope, local and global memory. Cost: at most one atomic operation on local memory. */
${arrival("arrive", "1u")}\
${defines("portbar_split_barrier_arrive_no_complete")}
/* `count` arrivals at once, which must not complete the phase. Caller, order and cost: as for
   portbar_split_barrier_arrive. */
${arrival("arrive_no_complete", "count", completes=False)}\
${defines("portbar_split_barrier_arrive_count")}
/* `count` arrivals at once, which may complete the phase. Caller, order and cost: as for
   portbar_split_barrier_arrive. */
${arrival("arrive_count", "count")}\
${defines("portbar_split_barrier_arrive_and_drop")}
/* Arrives, and one arrival fewer is expected from the next phase on. Caller and order: as for
   portbar_split_barrier_arrive. Cost: at most two atomic operations on local memory. */
${arrival("arrive_and_drop", "1u", drops=True)}\
${defines("portbar_split_barrier_arrive_and_drop_no_complete")}
/* `count` arrivals at once, which must not complete the phase, and as many fewer are expected from the next phase on.
   Caller, order and cost: as for portbar_split_barrier_arrive_and_drop. */
${arrival("arrive_and_drop_no_complete", "count", drops=True, completes=False)}\
${group()}
/* Arrives when this work-item's earlier copies are done, as one arrival beyond those expected; `_no_inc`: as one of
   them. Caller, order and cost: as for portbar_split_barrier_arrive. */
% for form in ("", "_no_inc"):
${defines(f"portbar_split_barrier_arrive_copy_async{form}")}
PORTBAR_MEMBER void portbar_split_barrier_arrive_copy_async${form}(local portbar_split_barrier *b)
{
${own.arrive_copies(expected=bool(form))}\
}
% endfor
${end()}
${defines("portbar_split_barrier_pending_count")}
/* Arrivals that were still pending just before the one that returned the token. Caller: any work-item. Cost: a few
   integer operations. */
PORTBAR_MEMBER uint portbar_split_barrier_pending_count(portbar_arrival_token token)
{
${own.pending()}\
}
</%def>
<%def name="waits()">
% for form, phase, parameter in (("", "token", "portbar_arrival_token token"), ("_parity", "parity", "uint parity")):
% if counted:
${defines(f"portbar_split_barrier_test_wait{form}")}
/* Whether the phase is complete, without waiting. Caller: any work-item. Order: acquire if true; stores before the
   arrivals are visible. Cost: a load. */
PORTBAR_MEMBER bool portbar_split_barrier_test_wait${form}(local portbar_split_barrier *b, ${parameter})
{
${own.test_wait(phase)}\
}
${defines(f"portbar_split_barrier_try_wait{form}")}
/* Polls a phase at most `polls` times; true when it is complete. Caller and order: as for
   portbar_split_barrier_test_wait. Cost: a load per poll. */
PORTBAR_MEMBER bool
portbar_split_barrier_try_wait${form}(local portbar_split_barrier *b, ${parameter}, uint polls)
{
${own.try_wait(phase, form)}\
}
% endif
% if counted or not form:
${defines(f"portbar_split_barrier_wait{form}")}
/* Waits for a phase. Caller: all work-items of the group, in uniform control flow, or those that the macros above
   name. Order: acquire, local and global memory. Result: false when the phase is not complete after
   PORTBAR_SPLIT_BARRIER_POLLS polls, or where a wait is a barrier and arrivals are missing. Cost: a load per poll, or
   a work-group barrier. */
PORTBAR_MEMBER bool portbar_split_barrier_wait${form}(local portbar_split_barrier *b, ${parameter})
{
${own.wait(phase, form)}\
}
% endif
% endfor
${defines("portbar_split_barrier_arrive_and_wait")}
/* Arrives and waits. Caller and result: as for portbar_split_barrier_wait. Order: release and acquire at work-group
   scope, local and global memory. Cost: those of an arrival and a wait. */
PORTBAR_MEMBER bool portbar_split_barrier_arrive_and_wait(local portbar_split_barrier *b)
{
    return portbar_split_barrier_wait(b, portbar_split_barrier_arrive(b));
}
</%def>
<%def name="copies()">
${defines("portbar_copy_async", of="local void *")}
/* Starts a copy of `bytes` (a constant: 4, 8 or 16) bytes from global to local memory, both aligned to as many. Others
   see it after a wait on a barrier on which this work-item called portbar_split_barrier_arrive_copy_async or its
   _no_inc form; this work-item also after portbar_copy_async_wait. Caller: any work-item. Cost: one asynchronous copy
   where PORTBAR_COPY_ASYNC_HARDWARE is defined, else a load and a store. */
PORTBAR_MEMBER void portbar_copy_async(local void *dst, const global void *src, uint bytes)
{
${own.copy()}\
}

${defines("portbar_copy_async_wait")}
/* Waits until this work-item's own copies are done, and visible to it. Caller: any work-item. Cost: the rest of the
   copies' time, where PORTBAR_COPY_ASYNC_HARDWARE is defined, else none. */
PORTBAR_MEMBER void portbar_copy_async_wait(void)
{
${own.copy_wait()}\
}

${defines("portbar_copy_async_group", of="local void *")}
/* Starts a copy of an array of `bytes` (a multiple of 4), shared out among the work-items of the group; 16 bytes at a
   time where both pointers are aligned to that, else 4. Each work-item's part completes as its own copies do. Caller:
   all work-items of the group. Cost: a copy per 16 or 4 bytes, shared by the work-items. */
PORTBAR_MEMBER void portbar_copy_async_group(local void *dst, const global void *src, uint bytes)
{
    const uint me =
        (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
    const uint all = (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
    const bool wide = ((((size_t)dst) | ((size_t)src)) & 15u) == 0u;
    const uint head = wide ? bytes / 16u : 0u;
    for (uint i = me; i < head; i += all)
        portbar_copy_async((local uint4 *)dst + i, (const global uint4 *)src + i, 16u);
    for (uint i = head * 4u + me; i < bytes / 4u; i += all)
        portbar_copy_async((local uint *)dst + i, (const global uint *)src + i, 4u);
}
</%def>
