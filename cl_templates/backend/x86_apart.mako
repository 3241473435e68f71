## -*- coding: utf-8 -*-
## Pauses and yields on x86-64 for compilers that abort on inline assembly in kernels: the effect ASSEMBLY_APART.
<%namespace name="host" file="backend/host_threads.mako"/>
<%def name="relax()">
${defines("portbar_relax")}
/* Pause between two polls, so that those who still work are not slowed down; the rounds of a wait count it. Caller: a
   waiting leader. */
static inline uint portbar_relax(uint missing)
{
    (void)missing;
    __builtin_ia32_pause();
    return 0u;
}
</%def>
<%def name="yield_processor()">
${host.yielding_apart("x86-64 Linux, past the red zone", capture(host.system_call))}\
</%def>
<%def name="lost_race()">
${defines("portbar_lost_race")}
${host.lost_race_comment()}\
static inline __attribute__((always_inline)) void portbar_lost_race(void)
{
    __builtin_ia32_pause();
    __builtin_ia32_pause();
    __builtin_ia32_pause();
    __builtin_ia32_pause();
}
</%def>
<%def name="trace_clock()">
${defines("portbar_trace_clock")}
${host.clock_comment()}\
static inline ulong portbar_trace_clock(void)
{
    __builtin_ia32_lfence();
    return __builtin_readcyclecounter();
}
</%def>
