## -*- coding: utf-8 -*-
## The split barrier by NVIDIA's mbarrier objects (PTX, sm_80 and later), as libcu++'s cuda::barrier and SYCL's
## extension use them.
<%def name="object()">
typedef struct __attribute__((aligned(8))) {
    ulong state;  /* the hardware's */
} portbar_split_barrier;
</%def>
<%def name="fault()">\
    (void)b;
    return 0u;
</%def>
<%def name="initialize()">\
    __asm__ volatile("mbarrier.init.shared.b64 [%0], %1;" :: "l"(b), "r"(expected) : "memory");
</%def>
<%def name="invalidate()">\
    __asm__ volatile("mbarrier.inval.shared.b64 [%0];" :: "l"(b) : "memory");
</%def>
<%def name="arrive(count, drops=False, completes=True)">\
% if completes and count != "1u" and "mbarrier.arrive of many" not in instructions:
    /* Before sm_90 only one arrival may complete a phase. The token is that of the first arrival, which holds the
       pending count. */
    if (count == 1u)
        return portbar_split_barrier_arrive(b);
    const portbar_arrival_token token = portbar_split_barrier_arrive_no_complete(b, count - 1u);
    (void)portbar_split_barrier_arrive(b);
% else:
<% form = ("_drop" if drops else "") + ("" if completes else ".noComplete") %>\
    portbar_arrival_token token;
% if count == "1u":
    __asm__ volatile("mbarrier.arrive${form}.shared.b64 %0, [%1];" : "=l"(token) : "l"(b) : "memory");
% else:
    __asm__ volatile("mbarrier.arrive${form}.shared.b64 %0, [%1], %2;"
                     : "=l"(token) : "l"(b), "r"(${count}) : "memory");
% endif
% endif
    return token;
</%def>
<%def name="arrive_copies(expected)">\
    __asm__ volatile("cp.async.mbarrier.arrive${".noinc" if expected else ""}.shared.b64 [%0];" :: "l"(b) : "memory");
</%def>
<%def name="pending()">\
    /* The hardware merges arrivals that work-items of a sub-group make together, and their tokens are equal.
       */
    uint pending;
    __asm__("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(token));
    return pending;
</%def>
<%def name="look(instruction, phase)">\
<% form, register, value = (".parity", "r", "parity & 1u") if phase == "parity" else ("", "l", "token") %>\
        uint complete;
        __asm__ volatile("{\n\t.reg .pred p;\n\tmbarrier.${instruction}${form}.shared.b64 p, [%1], %2;\n\t"
                         "selp.u32 %0, 1, 0, p;\n\t}" : "=r"(complete) : "l"(b), "${register}"(${value}) : "memory");
</%def>
<%def name="test_wait(phase)">\
    {
${look("test_wait", phase)}\
        return complete != 0u;
    }
</%def>
<%def name="try_wait(phase, form)">\
    for (uint i = 0; i < polls; ++i) {
% if "mbarrier.try_wait" in instructions:
        /* Sleeps until the phase completes, or for as long as the hardware does. */
${look("try_wait", phase)}\
        if (complete != 0u)
            return true;
% else:
        if (portbar_split_barrier_test_wait${form}(b, ${phase}))
            return true;
% endif
    }
    return false;
</%def>
<%def name="copy()">\
    if (bytes == 4u)
        __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "l"(dst), "l"(src) : "memory");
    else if (bytes == 8u)
        __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "l"(dst), "l"(src) : "memory");
    else
        __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "l"(dst), "l"(src) : "memory");
</%def>
<%def name="copy_wait()">\
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
</%def>
<%def name="wait(phase, form)">\
    return portbar_split_barrier_try_wait${form}(b, ${phase}, PORTBAR_SPLIT_BARRIER_POLLS);
</%def>
