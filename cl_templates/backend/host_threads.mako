## -*- coding: utf-8 -*-
## Pauses and yields on x86-64, where work-groups are threads of the host.
<%def name="relax()">
${defines("portbar_relax")}
/* Pause between two polls, so that those who still work are not slowed down; the rounds of a wait count it. Caller: a
   waiting leader. */
static inline uint portbar_relax(uint missing)
{
    (void)missing;
    __asm__ volatile("pause" ::: "memory");
    return 0u;
}
</%def>
<%def name="yielding(about, system_call)">
${defines("portbar_yield")}
#ifndef PORTBAR_YIELD
#define PORTBAR_YIELD
${yield_comment()}\
static inline void portbar_yield(uint round)
{
    if (${yield_condition()}) {
        /* sched_yield of ${about}; without operands, whose constraints some compilers lack. */
        __asm__ volatile(${system_call} ::: "memory");
    }
}
#endif
</%def>
<%def name="yielding_apart(about, system_call)">
${defines("portbar_yield")}
#ifndef PORTBAR_YIELD
#define PORTBAR_YIELD
/* sched_yield of ${about}. By its name the compiler takes it
   for its own function for printf, and inlines it into no kernel, where assembly would abort it. */
static __attribute__((noinline)) void __pocl_print_portbar_yield(void)
{
    __asm__ volatile(${system_call} ::: "memory");
}

${yield_comment()}\
static inline void portbar_yield(uint round)
{
    if (${yield_condition()})
        __pocl_print_portbar_yield();
}
#endif
</%def>
<%def name="yield_processor()">
${yielding("x86-64 Linux, past the red zone", capture(system_call))}\
</%def>
<%def name="system_call()">"leaq -128(%%rsp), %%rsp\n\tpushq %%rax\n\tpushq %%rcx\n\tpushq %%r11\n\t"
                         "movl $24, %%eax\n\tsyscall\n\t"
                         "popq %%r11\n\tpopq %%rcx\n\tpopq %%rax\n\tleaq 128(%%rsp), %%rsp"</%def>
<%def name="lost_race()">
${defines("portbar_lost_race")}
${lost_race_comment()}\
static inline __attribute__((always_inline)) void portbar_lost_race(void)
{
    __asm__ volatile("pause\n\tpause\n\tpause\n\tpause" ::: "memory");
}
</%def>
<%def name="trace_clock()">
${defines("portbar_trace_clock")}
${clock_comment()}\
static inline ulong portbar_trace_clock(void)
{
    __asm__ volatile("lfence" ::: "memory");
    return __builtin_readcyclecounter();
}
</%def>
<%def name="yield_comment()">\
/* Called after each round of polls. Every 64 rounds, a microsecond or two, a thread makes way for one that it may wait
   for on the same core, as the scheduler would milliseconds later. After 16,384 rounds it yields rarely: on a busy
   machine each yield may take a time slice, which the limit does not count. Caller: a waiting leader. */
</%def>
<%def name="yield_condition()">(round & 63u) == 63u && (round < 16384u || (round & 65535u) == 65535u)</%def>
<%def name="lost_race_comment()">\
/* After a compare-exchange that another work-item won. Without a pause, cores that compete for one line of the cache
   keep it from each other: a loop with four of these was measured to finish about three times as soon. */
</%def>
<%def name="clock_comment()">\
/* The processor's counter of time, from any beginning; the same for all cores, at an unknown rate. The fence orders it
   after preceding instructions: a processor that predicts the end of a wait would otherwise read it too early. */
</%def>
