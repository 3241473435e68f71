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
/* One more arrival at a counter, release, device scope; returns how many there were before. Caller: a leader${", whose `lane` is 0" if in_registers else ""}. */
% if in_registers:
static inline uint portbar_word_arrive(volatile global uint *p, uint lane)
{
    /* Always so for a leader. Told of it, the assembler does not combine the additions of lanes that do not come. */
    uint before = 0u;
    if (lane == 0u)
        before = portbar_word_add_release(p, 1u);
    return before;
}

/* The caller's place in its warp. */
static inline uint portbar_lane(void)
{
    uint lane;
    __asm__ volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
% else:
static inline uint portbar_word_arrive(volatile global uint *p)
{
    return portbar_word_add_release(p, 1u);
}
% endif
</%def>
