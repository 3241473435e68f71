## -*- coding: utf-8 -*-
## Pauses and yields on AArch64 for compilers that abort on inline assembly in kernels: the effect ASSEMBLY_APART.
<%namespace name="host" file="backend/host_threads.mako"/>
<%namespace name="here" file="backend/aarch64.mako"/>
<%def name="relax()">
${defines("portbar_relax")}
/* Pause between two polls, so that those who still work are not slowed down; the rounds of a wait count it. `isb` waits
   until the pipeline is empty. Caller: a waiting leader. */
static inline uint portbar_relax(uint missing)
{
    (void)missing;
    __builtin_arm_isb(15);
    return 0u;
}
</%def>
<%def name="yield_processor()">
${host.yielding_apart("AArch64 Linux, which changes x0 alone", capture(here.system_call))}\
</%def>
<%def name="lost_race()">
${defines("portbar_lost_race")}
${here.lost_race_comment()}\
static inline __attribute__((always_inline)) void portbar_lost_race(void)
{
    __builtin_arm_isb(15);
}
</%def>
<%def name="trace_clock()">
${defines("portbar_trace_clock")}
${here.clock_comment()}\
static __attribute__((noinline)) ulong __pocl_print_portbar_clock(void)
{
    ulong now;
    __asm__ volatile(${capture(here.clock_read)} : "=r"(now) : : "memory");
    return now;
}

static inline ulong portbar_trace_clock(void)
{
    return __pocl_print_portbar_clock();
}
</%def>
