## -*- coding: utf-8 -*-
## The acquire after relaxed polls, which is the same for all atomics but for those with one-way fences.
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
