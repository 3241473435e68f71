## -*- coding: utf-8 -*-
## Waits that are a barrier() of the whole group: right on every device for waits that all work-items of the group reach.
<%def name="waits()">
% for form, argument, name in (("", "portbar_arrival_token token", "token"), ("_parity", "uint parity", "parity")):
% if counted or not form:
/* Waits for a phase. Release and acquire order, local and global memory. Caller: all work-items of the group, in uniform control flow.
   Result: the same in all; ${"false when the phase was not complete although all had come here" if counted else "of no use: this program drops it"}. Cost: one barrier(). */
static inline __attribute__((always_inline)) bool portbar_split_barrier_wait${form}(local portbar_split_barrier *b, ${argument})
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% if counted:
    const bool complete = ${"portbar_split_completed(b, token)" if not form else "portbar_split_passed(b, parity)"};
% if debug:
    portbar_split_fault(b, !complete, PORTBAR_FAULT_NOT_COMPLETE);
% endif
    return complete;
% else:
    (void)b;
    (void)${name};
    return true;
% endif
}
% endif
% if counted:
/* Nobody else may progress while a work-item polls, so one look is as good as many. */
static inline __attribute__((always_inline)) bool portbar_split_barrier_try_wait${form}(local portbar_split_barrier *b, ${argument}, uint polls)
{
    (void)polls;
    return portbar_split_barrier_test_wait${form}(b, ${name});
}
% endif
% endfor
</%def>
