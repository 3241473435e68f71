## -*- coding: utf-8 -*-
## The split barrier in software: counts of 32 bits in local memory. `counter` and `uniform` inherit it and add the
## waits.
<%!
    GROUP = "memory_order_relaxed, memory_scope_work_group"
%>
<%def name="object()">\
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
${defines("PORTBAR_SPLIT_BARRIER_VALID")}
#define PORTBAR_SPLIT_BARRIER_VALID 0x70623031u

${group()}
/* Keeps the first fault of a barrier and prints each, where one is found. Without branches but for the printing: some
   compilers abort over branches between two barriers in a loop. */
${defines("portbar_split_fault")}
PORTBAR_MEMBER void portbar_split_fault(local portbar_split_barrier *b, bool found, uint fault)
{
    /* Any value in memory that is no barrier may be the kept one. No barrier holds 0xffffffff, so that nothing is kept
       where no fault was found. */
    const uint kept = portbar_atomic_load_explicit(&b->fault, ${GROUP});
    uint none = !found ? 0xffffffffu : fault == PORTBAR_FAULT_INVALID ? kept : 0u;
    portbar_atomic_compare_exchange_strong_explicit(&b->fault, &none, fault, memory_order_relaxed, ${GROUP});
% if prints:
% for number, words in faults.values():
    if (found && fault == ${number}u)
        printf("portbar: split barrier: ${words}\n");
% endfor
% endif
}
${defines("portbar_split_check")}
PORTBAR_MEMBER void portbar_split_check(local portbar_split_barrier *b)
{
    portbar_split_fault(b, b->valid != PORTBAR_SPLIT_BARRIER_VALID, PORTBAR_FAULT_INVALID);
}
${end()}
% endif
% if counted:

${defines("portbar_split_count")}
/* Counts `count` arrivals, of which `drop` are not expected again. The one that completes the phase sets the next one
   up before it says so. Arrivals in the next phase come after that, so none is lost. (libcu++'s software barrier
   reloads after it has said so, and can lose one that overtakes the reload.) */
PORTBAR_MEMBER portbar_arrival_token
portbar_split_count(local portbar_split_barrier *b, uint count, uint drop, bool may_complete)
{
${check()}\
    const uint phase = portbar_atomic_load_explicit(&b->phase, ${GROUP});
    if (drop != 0u)
        portbar_atomic_sub_explicit(&b->expected, drop, ${GROUP});
    PORTBAR_GROUP_FENCE(memory_order_release);
    const uint pending = portbar_atomic_fetch_sub_explicit(&b->pending, count, ${GROUP});
% if debug:
    portbar_atomic_add_explicit(&b->pending, pending < count ? count : 0u, ${GROUP});
    portbar_split_fault(b, pending < count, PORTBAR_FAULT_OVER_EXPECTED);
    portbar_split_fault(b, pending == count && !may_complete, PORTBAR_FAULT_COMPLETED);
% else:
    (void)may_complete;
% endif
    if (pending == count) {
        PORTBAR_GROUP_FENCE(memory_order_acquire);
        const uint expected = portbar_atomic_load_explicit(&b->expected, ${GROUP});
        portbar_atomic_store_explicit(&b->pending, expected, ${GROUP});
        PORTBAR_GROUP_FENCE(memory_order_release);
        portbar_atomic_add_explicit(&b->phase, 1u, ${GROUP});
    }
    return (portbar_arrival_token)phase << 32 | pending;
}
${group()}
/* Whether the phase of a token is complete, which is the current one or the one before; and the last one of a parity.
   */
${defines("portbar_split_completed_token")}
PORTBAR_MEMBER bool portbar_split_completed_token(local portbar_split_barrier *b, portbar_arrival_token token)
{
    const uint phase = portbar_atomic_load_explicit(&b->phase, ${GROUP});
${check()}\
% if debug:
    portbar_split_fault(b, phase - (uint)(token >> 32) > 1u, PORTBAR_FAULT_STALE_TOKEN);
% endif
    return phase != (uint)(token >> 32);
}
${defines("portbar_split_completed_parity")}
PORTBAR_MEMBER bool portbar_split_completed_parity(local portbar_split_barrier *b, uint parity)
{
${check()}\
    return (portbar_atomic_load_explicit(&b->phase, ${GROUP}) & 1u) != (parity & 1u);
}
${end()}
% endif
</%def>
<%def name="check()">\
% if debug:
    portbar_split_check(b);
% endif
</%def>
<%def name="unused(*names)">\
% for name in names:
    (void)${name};
% endfor
</%def>
<%def name="fault()">\
% if debug:
    return portbar_atomic_load_explicit(&b->fault, ${GROUP});
% else:
${unused("b")}\
    return 0u;
% endif
</%def>
<%def name="initialize()">\
    b->expected = expected;
    b->pending = expected;
    b->phase = 0u;
    b->fault = 0u;
% if debug:
    b->valid = PORTBAR_SPLIT_BARRIER_VALID;
% endif
</%def>
<%def name="invalidate()">\
% if debug:
    portbar_split_check(b);
    b->valid = 0u;
% else:
${unused("b")}\
% endif
</%def>
<%def name="arrive(count, drops=False, completes=True)">\
% if counted:
    return portbar_split_count(b, ${count}, ${count if drops else "0u"}, ${"true" if completes else "false"});
% else:
${unused("b", *(["count"] if count == "count" else []))}\
    return 0;
% endif
</%def>
<%def name="arrive_copies(expected)">\
% if not counted:
${unused("b")}\
% elif expected:
    (void)portbar_split_count(b, 1u, 0u, true);
% else:
${check()}\
    /* The copies are done already, and the arrival that completes the phase reads this place after the release. */
    PORTBAR_GROUP_FENCE(memory_order_release);
    portbar_atomic_add_explicit(&b->pending, 0u, ${GROUP});
% endif
</%def>
<%def name="pending()">\
    return (uint)token;
</%def>
<%def name="test_wait(phase)">\
    const bool complete = portbar_split_completed_${phase}(b, ${phase});
    if (complete)
        PORTBAR_GROUP_FENCE(memory_order_acquire);
    return complete;
</%def>
<%def name="copy()">\
    if (bytes == 4u)
        *(local uint *)dst = *(const global uint *)src;
    else if (bytes == 8u)
        *(local uint2 *)dst = *(const global uint2 *)src;
    else
        *(local uint4 *)dst = *(const global uint4 *)src;
</%def>
<%def name="copy_wait()">\
</%def>
