## -*- coding: utf-8 -*-
## What atomics need of the processor of an x86 host.
<%def name="lost_race()">
/* After a compare-exchange that another work-item won. Without a pause, cores that compete for one line of the cache keep it from each
   other: a loop with four of these was measured to finish about three times as soon. */
static inline __attribute__((always_inline)) void portbar_lost_race(void)
{
    __asm__ volatile("pause\n\tpause\n\tpause\n\tpause" ::: "memory");
}
</%def>
