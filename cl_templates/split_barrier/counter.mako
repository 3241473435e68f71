## -*- coding: utf-8 -*-
## Waits that poll the phase: for devices whose work-items (or sub-groups) progress while others wait.
<%def name="waits()">
/* Waits for a phase, at most `polls` polls; true when it is complete. Acquire order, local and global memory: what was done before the
   arrivals is visible. Caller: any work-item${"" if "divergent" in features else "; all of a sub-group together"}. Cost: a load a poll. */
% for form, argument, name in (("", "portbar_arrival_token token", "token"), ("_parity", "uint parity", "parity")):
static inline __attribute__((always_inline)) bool portbar_split_barrier_try_wait${form}(local portbar_split_barrier *b, ${argument}, uint polls)
{
    for (uint i = 0; i < polls; ++i) {
        if (portbar_split_barrier_test_wait${form}(b, ${name}))
            return true;
        if ((i & 63u) == 63u)
            portbar_between_polls(i >> 6);
    }
    return false;
}
/* The same with the limit PORTBAR_SPLIT_BARRIER_POLLS, after which something is wrong. */
static inline __attribute__((always_inline)) bool portbar_split_barrier_wait${form}(local portbar_split_barrier *b, ${argument})
{
    return portbar_split_barrier_try_wait${form}(b, ${name}, PORTBAR_SPLIT_BARRIER_POLLS);
}
% endfor
</%def>
