## -*- coding: utf-8 -*-
## The barrier object in software: counts of 32 bits in local memory, for the strategies counter and uniform.
<%!
    BOTH = "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE"
    GROUP = "memory_scope_work_group"
%>
<%def name="object()">
/* The object. Reserve it in local memory; its fields are portbar's own. */
typedef struct __attribute__((aligned(8))) {
    uint expected;  /* arrivals that complete the next phase */
    uint pending;   /* arrivals that this phase still lacks */
    uint phase;     /* phases completed */
    uint fault;
% if debug:
    uint valid;
    uint unused;
% endif
} portbar_split_barrier;
% if debug:
#define PORTBAR_SPLIT_BARRIER_VALID 0x70623031u

/* Keeps the first fault of a barrier and prints each, where one is found. Without branches but for the printing: between two barriers
   in a loop some compilers abort over many (the quirk pocl-loops-in-branches). */
static inline __attribute__((always_inline)) void portbar_split_fault(local portbar_split_barrier *b, bool found, uint fault)
{
    /* What lies in memory that is no barrier is no fault; and no barrier holds 0xffffffff, so nothing is kept where none was found. */
    const uint kept = portbar_atomic_load_explicit(&b->fault, memory_order_relaxed, ${GROUP});
    uint none = !found ? 0xffffffffu : fault == PORTBAR_FAULT_INVALID ? kept : 0u;
    portbar_atomic_compare_exchange_strong_explicit(&b->fault, &none, fault, memory_order_relaxed, memory_order_relaxed, ${GROUP});
% if prints:
% for name, (number, words) in fault_words.items():
    if (found && fault == ${number}u)
        printf("portbar: split barrier: ${words}\n");
% endfor
% endif
}
static inline __attribute__((always_inline)) void portbar_split_check(local portbar_split_barrier *b)
{
    portbar_split_fault(b, b->valid != PORTBAR_SPLIT_BARRIER_VALID, PORTBAR_FAULT_INVALID);
}
% endif
/* The first fault that a debug build (`Program(debug=True)`) found with this barrier, 0 for none; always 0 in other builds. Caller: any
   work-item. */
static inline __attribute__((always_inline)) uint portbar_split_barrier_fault(local portbar_split_barrier *b)
{
% if debug:
    return portbar_atomic_load_explicit(&b->fault, memory_order_relaxed, ${GROUP});
% else:
    (void)b;
    return 0u;
% endif
}

/* Makes a barrier that `expected` arrivals complete. Caller: one work-item; then a barrier(CLK_LOCAL_MEM_FENCE) of all that use it. */
static inline __attribute__((always_inline)) void portbar_split_barrier_initialize(local portbar_split_barrier *b, uint expected)
{
    b->expected = expected;
    b->pending = expected;
    b->phase = 0u;
    b->fault = 0u;
% if debug:
    b->valid = PORTBAR_SPLIT_BARRIER_VALID;
% endif
}

/* Ends a barrier, so that its memory may be used otherwise. Caller: one work-item, after a barrier() of all that used it. */
static inline __attribute__((always_inline)) void portbar_split_barrier_invalidate(local portbar_split_barrier *b)
{
% if debug:
    portbar_split_check(b);
    b->valid = 0u;
% else:
    (void)b;
% endif
}
</%def>
<%def name="counting()">
/* Counts `count` arrivals, of which `drop` are not expected again. The one that completes the phase sets the next one up before it
   says so; nobody arrives in the next phase before having seen that, so no arrival is lost. (libcu++'s software barrier reloads
   after it has said so, and can lose one that overtakes the reload.) */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_count(local portbar_split_barrier *b, uint count, uint drop, bool may_complete)
{
% if not counted:
    (void)b;
    (void)count;
    (void)drop;
    (void)may_complete;
    return 0;
% else:
% if debug:
    portbar_split_check(b);
% endif
    const uint phase = portbar_atomic_load_explicit(&b->phase, memory_order_relaxed, ${GROUP});
    if (drop != 0u)
        portbar_atomic_sub_explicit(&b->expected, drop, memory_order_relaxed, ${GROUP});
% if fenced:
    portbar_atomic_work_item_fence(${BOTH}, memory_order_release, ${GROUP});
% endif
    const uint pending = portbar_atomic_fetch_sub_explicit(&b->pending, count, memory_order_relaxed, ${GROUP});
% if debug:
    portbar_atomic_add_explicit(&b->pending, pending < count ? count : 0u, memory_order_relaxed, ${GROUP});
    portbar_split_fault(b, pending < count, PORTBAR_FAULT_OVER_EXPECTED);
    portbar_split_fault(b, pending == count && !may_complete, PORTBAR_FAULT_COMPLETED);
% else:
    (void)may_complete;
% endif
    if (pending == count) {
% if fenced:
        portbar_atomic_work_item_fence(${BOTH}, memory_order_acquire, ${GROUP});
% endif
        const uint expected = portbar_atomic_load_explicit(&b->expected, memory_order_relaxed, ${GROUP});
        portbar_atomic_store_explicit(&b->pending, expected, memory_order_relaxed, ${GROUP});
% if fenced:
        portbar_atomic_work_item_fence(${BOTH}, memory_order_release, ${GROUP});
% endif
        portbar_atomic_add_explicit(&b->phase, 1u, memory_order_relaxed, ${GROUP});
    }
    return (portbar_arrival_token)phase << 32 | pending;
% endif
}
</%def>
<%def name="arrivals()">
/* Arrives, without waiting: release order at work-group scope, local and global memory. The token is for the wait on this phase.
   Caller: any work-item. Cost: ${"an atomic operation on local memory" if counted else "nothing: this program does not look at counts"}. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive(local portbar_split_barrier *b)
{
    return portbar_split_count(b, 1u, 0u, true);
}
/* The same for `count` arrivals at once, which may complete the phase. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive_count(local portbar_split_barrier *b, uint count)
{
    return portbar_split_count(b, count, 0u, true);
}
/* `count` arrivals at once, which must not complete the phase. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive_no_complete(local portbar_split_barrier *b, uint count)
{
    return portbar_split_count(b, count, 0u, false);
}
/* Arrives, and one arrival fewer is expected from the next phase on. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive_and_drop(local portbar_split_barrier *b)
{
    return portbar_split_count(b, 1u, 1u, true);
}
/* `count` arrivals at once, which must not complete the phase, and as many fewer are expected from the next phase on. */
static inline __attribute__((always_inline)) portbar_arrival_token portbar_split_barrier_arrive_and_drop_no_complete(local portbar_split_barrier *b, uint count)
{
    return portbar_split_count(b, count, count, false);
}
/* Arrives when this work-item's earlier copies are done, as one arrival beyond those expected; here they are done already, so the
   pending count goes up and down again. Release order as for an arrival. */
static inline __attribute__((always_inline)) void portbar_split_barrier_arrive_copy_async(local portbar_split_barrier *b)
{
% if counted:
% if debug:
    portbar_split_check(b);
% endif
% if fenced:
    portbar_atomic_work_item_fence(${BOTH}, memory_order_release, ${GROUP});
% endif
    /* Adding nothing is enough: whoever completes the phase reads this place behind the release. */
    portbar_atomic_add_explicit(&b->pending, 0u, memory_order_relaxed, ${GROUP});
% else:
    (void)b;
% endif
}
/* The same as one of the arrivals expected. */
static inline __attribute__((always_inline)) void portbar_split_barrier_arrive_copy_async_no_inc(local portbar_split_barrier *b)
{
    (void)portbar_split_count(b, 1u, 0u, true);
}
/* Arrivals that were still pending just before the one that returned the token. */
static inline __attribute__((always_inline)) uint portbar_split_barrier_pending_count(portbar_arrival_token token)
{
    return (uint)token;
}
% if counted:
/* Whether the phase of a token is complete; a token is of the current phase or of the one before. */
static inline __attribute__((always_inline)) bool portbar_split_completed(local portbar_split_barrier *b, portbar_arrival_token token)
{
    const uint phase = portbar_atomic_load_explicit(&b->phase, memory_order_relaxed, ${GROUP});
% if debug:
    portbar_split_check(b);
    portbar_split_fault(b, phase - (uint)(token >> 32) > 1u, PORTBAR_FAULT_STALE_TOKEN);
% endif
    return phase != (uint)(token >> 32);
}
/* Whether the last phase of this parity is complete. */
static inline __attribute__((always_inline)) bool portbar_split_passed(local portbar_split_barrier *b, uint parity)
{
% if debug:
    portbar_split_check(b);
% endif
    return (portbar_atomic_load_explicit(&b->phase, memory_order_relaxed, ${GROUP}) & 1u) != (parity & 1u);
}
/* Whether the phase is complete, without waiting. Acquire order when true: what was done before the arrivals is visible. Caller: any
   work-item. Cost: a load. */
% for form, argument, asked in (("", "portbar_arrival_token token", "portbar_split_completed(b, token)"), ("_parity", "uint parity", "portbar_split_passed(b, parity)")):
static inline __attribute__((always_inline)) bool portbar_split_barrier_test_wait${form}(local portbar_split_barrier *b, ${argument})
{
    const bool complete = ${asked};
% if fenced:
    if (complete)
        portbar_atomic_work_item_fence(${BOTH}, memory_order_acquire, ${GROUP});
% endif
    return complete;
}
% endfor
% endif
</%def>
