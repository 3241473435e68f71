## -*- coding: utf-8 -*-
## Waits that are a barrier() of the whole group: right on every device for waits that all work-items of the group
## reach.
<%inherit file="split_barrier/software.mako"/>
<%def name="try_wait(phase, form)">\
    (void)polls;  /* others may not progress while a work-item polls, so one look is as good as many */
    return portbar_split_barrier_test_wait${form}(b, ${phase});
</%def>
<%def name="wait(phase, form)">\
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% if counted:
    const bool complete = portbar_split_completed_${phase}(b, ${phase});
% if debug:
    portbar_split_fault(b, !complete, PORTBAR_FAULT_NOT_COMPLETE);
% endif
    return complete;
% else:
    (void)b;
    (void)${phase};
    return true;  /* this program drops it */
% endif
</%def>
