## -*- coding: utf-8 -*-
## How a waiting work-group gives its processor to another one, where work-groups are threads of the host.
<%def name="yield_processor()">
#ifndef PORTBAR_YIELD
#define PORTBAR_YIELD
/* Called after each round of polls. Where two work-groups share a core, the one that waits keeps the one it waits for off it
   until the scheduler steps in, milliseconds later; so the waiting thread yields every 64 rounds, a microsecond or two. After
   16,384 rounds it yields rarely: on a busy machine each of the 256 yields may take a time slice, which the limit does not count.
   Caller: a waiting leader. Cost: nothing on other devices; on CPUs a system call every few microseconds of waiting. */
static inline void portbar_yield(uint round)
{
% if yield_by == "syscall":
    if ((round & 63u) == 63u && (round < 16384u || (round & 65535u) == 65535u)) {
        /* sched_yield of x86-64 Linux, written without operands: some OpenCL compilers know no register constraints. The red
           zone is stepped over, and what the system call changes is saved. */
        __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
                         "pushq %%rax\n\tpushq %%rcx\n\tpushq %%r11\n\t"
                         "movl $24, %%eax\n\tsyscall\n\t"
                         "popq %%r11\n\tpopq %%rcx\n\tpopq %%rax\n\t"
                         "leaq 128(%%rsp), %%rsp" ::: "memory");
    }
% else:
    (void)round;
% endif
}
#endif
</%def>
