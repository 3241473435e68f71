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
${defines("portbar_yield")}
#ifndef PORTBAR_YIELD
#define PORTBAR_YIELD
/* sched_yield of x86-64 Linux, past the red zone. By its name the compiler takes it for its own function for printf, and
   inlines it into no kernel, where assembly would abort it. */
static __attribute__((noinline)) void __pocl_print_portbar_yield(void)
{
    __asm__ volatile(${capture(host.system_call)} ::: "memory");
}

${host.yield_comment()}\
static inline void portbar_yield(uint round)
{
    if (${host.yield_condition()})
        __pocl_print_portbar_yield();
}
#endif
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
