## -*- coding: utf-8 -*-
## cl_intel_split_work_group_barrier: the group's own barrier in two halves, one arrival and one wait at a time.
<%def name="arrived()">
/* The hardware's arrive; each work-item makes it once before each wait. */
static inline __attribute__((always_inline)) void portbar_split_arrived(void)
{
    intel_work_group_barrier_arrive(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
</%def>
<%def name="waits()">
% for form, argument, name in (("", "portbar_arrival_token token", "token"), ("_parity", "uint parity", "parity")):
% if counted or not form:
/* Waits for a phase. Release and acquire order, local and global memory. Caller: all work-items of the group, in uniform control flow,
   each after one arrival. Result: the same in all. Cost: what is left of the hardware's barrier. */
static inline __attribute__((always_inline)) bool portbar_split_barrier_wait${form}(local portbar_split_barrier *b, ${argument})
{
    intel_work_group_barrier_wait(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% if counted:
    return ${"portbar_split_completed(b, token)" if not form else "portbar_split_passed(b, parity)"};
% else:
    (void)b;
    (void)${name};
    return true;
% endif
}
% endif
% if counted:
static inline __attribute__((always_inline)) bool portbar_split_barrier_try_wait${form}(local portbar_split_barrier *b, ${argument}, uint polls)
{
    (void)polls;
    return portbar_split_barrier_test_wait${form}(b, ${name});
}
% endif
% endfor
</%def>
