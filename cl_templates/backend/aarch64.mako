## -*- coding: utf-8 -*-
## Pauses and yields on AArch64, where work-groups are threads of the host.
<%namespace name="host" file="backend/host_threads.mako"/>
<%def name="relax()">
${defines("portbar_relax")}
/* Pause between two polls, so that those who still work are not slowed down; the rounds of a wait count it. `yield` does
   nothing on most cores of this architecture: `isb` waits until the pipeline is empty. Caller: a waiting leader. */
static inline uint portbar_relax(uint missing)
{
    (void)missing;
    __asm__ volatile("isb" ::: "memory");
    return 0u;
}
</%def>
<%def name="yield_processor()">
${host.yielding("AArch64 Linux, which changes x0 alone", capture(system_call))}\
</%def>
<%def name="system_call()">"stp x0, x8, [sp, -16]!\n\tmov x8, 124\n\tsvc 0\n\tldp x0, x8, [sp], 16"</%def>
<%def name="lost_race()">
${defines("portbar_lost_race")}
${lost_race_comment()}\
static inline __attribute__((always_inline)) void portbar_lost_race(void)
{
    __asm__ volatile("isb" ::: "memory");
}
</%def>
<%def name="trace_clock()">
${defines("portbar_trace_clock")}
${clock_comment()}\
static inline ulong portbar_trace_clock(void)
{
    ulong now;
    __asm__ volatile(${capture(clock_read)} : "=r"(now) : : "memory");
    return now;
}
</%def>
<%def name="lost_race_comment()">\
/* After a compare-exchange that another work-item won: a pause, so that cores that compete for one line of the cache do not
   keep it from each other. */
</%def>
<%def name="clock_comment()">\
/* The processor's counter of time, from any beginning; the same for all cores, at an unknown rate. `isb` orders it after
   preceding instructions: a processor that predicts the end of a wait would otherwise read it too early. The compiler's
   own function for a counter of cycles reads one that programs may not read on Linux. */
</%def>
<%def name="clock_read()">"isb\n\tmrs %0, cntvct_el0"</%def>
