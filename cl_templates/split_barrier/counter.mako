## -*- coding: utf-8 -*-
## Waits that poll the phase: for devices whose work-items (or sub-groups) progress while others wait.
<%inherit file="split_barrier/software.mako"/>
<%def name="try_wait(phase, form)">\
    for (uint i = 0; i < polls; ++i) {
        if (portbar_split_barrier_test_wait${form}(b, ${phase}))
            return true;
        if ((i & 63u) == 63u)
            portbar_between_polls(i >> 6);
    }
    return false;
</%def>
<%def name="wait(phase, form)">\
    return portbar_split_barrier_try_wait${form}(b, ${phase}, PORTBAR_SPLIT_BARRIER_POLLS);
</%def>
