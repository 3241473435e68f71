## -*- coding: utf-8 -*-
## How a waiting work-group gives its processor to another one, where work-groups are threads of the host.
<%def name="declaration()">
% if yield_by == "libc":
/* The runtime resolves it in the host process. */
int sched_yield(void);
% endif
</%def>
<%def name="yield_processor()">
/* Called after each round of polls. Where work-groups are threads of a host with fewer cores than threads, the one that waits
   keeps the one it waits for off the core until the scheduler steps in, milliseconds later; so every eighth round the thread
   yields. Caller: a waiting leader. Cost: nothing on other devices; a system call a microsecond or so on CPUs. */
static inline void portbar_yield(uint round)
{
% if yield_by == "libc":
    if ((round & 7u) == 7u)
        (void)sched_yield();
% elif yield_by == "syscall":
    if ((round & 7u) == 7u) {
        long result = 24; /* sched_yield on x86-64 Linux */
        __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    }
% else:
    (void)round;
% endif
}
</%def>
