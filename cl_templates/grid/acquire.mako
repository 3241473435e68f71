## -*- coding: utf-8 -*-
## The acquire after relaxed polls, which is the same for all atomics but for those with one-way fences; and arrivals at counters.
<%def name="word_acquire()">
/* Acquire, device scope, from whoever released the value that a relaxed load of `*p` returned before. Cost: ${"no trip to memory, which a load with acquire order would make" if one_way_fences else "one load"}. */
static inline void portbar_word_acquire(volatile global uint *p)
{
% if one_way_fences:
    (void)p;
    __asm__ volatile("fence.acquire.gpu;" ::: "memory");
% else:
    (void)portbar_word_load_acquire(p);
% endif
}
</%def>
<%def name="word_arrive()">
<% fence = "fence.release.gpu;" if one_way_fences else "fence.acq_rel.gpu;" %>\
/* One more arrival at a counter, release, device scope; returns how many there were before. Caller: a leader. */
static inline uint portbar_word_arrive(volatile global uint *p)
{
% if in_registers:
    /* Additions the assembler combines among the lanes of a warp, by a vote that takes time though one lane comes. It leaves
       increments alone whose bound it does not know: a leader is the first lane, of which this one is the largest number. */
    uint before;
    __asm__ volatile("{\n\t"
                     ".reg .u32 most;\n\t"
                     "mov.u32 most, %%lanemask_ge;\n\t"
                     "${fence}\n\t"
                     "atom.relaxed.gpu.global.inc.u32 %0, [%1], most;\n\t"
                     "}" : "=r"(before) : "l"(p) : "memory");
    return before;
% else:
    return portbar_word_add_release(p, 1u);
% endif
}
</%def>
<%def name="word_arrive_twice()">
<% fence = "fence.release.gpu;" if one_way_fences else "fence.acq_rel.gpu;" %>\
/* One more arrival at each of two counters, release, device scope. Caller: a leader. */
static inline void portbar_word_arrive_twice(volatile global uint *p, volatile global uint *q)
{
% if in_registers:
    /* As in portbar_word_arrive. */
    __asm__ volatile("{\n\t"
                     ".reg .u32 most;\n\t"
                     "mov.u32 most, %%lanemask_ge;\n\t"
                     "${fence}\n\t"
                     "red.relaxed.gpu.global.inc.u32 [%0], most;\n\t"
                     "red.relaxed.gpu.global.inc.u32 [%1], most;\n\t"
                     "}" :: "l"(p), "l"(q) : "memory");
% else:
    (void)portbar_word_arrive(p);
    (void)portbar_word_arrive(q);
% endif
}
</%def>
