## -*- coding: utf-8 -*-
## Words of 32 bits in global memory that only NVIDIA's GPUs have.
<%def name="word_chain()">
/* One more arrival at a counter, gpu scope, that passes on what a relaxed read-modify-write before it was released with; returns how
   many there were before. The fence acquires for the one and releases for the other. Caller: a leader. */
static inline uint portbar_word_arrive_chained(volatile global uint *p)
{
    /* As in portbar_word_arrive. */
    uint before;
    __asm__ volatile("{\n\t"
                     ".reg .u32 most;\n\t"
                     "mov.u32 most, %%lanemask_ge;\n\t"
                     "fence.acq_rel.gpu;\n\t"
                     "atom.relaxed.gpu.global.inc.u32 %0, [%1], most;\n\t"
                     "}" : "=r"(before) : "l"(p) : "memory");
    return before;
}

/* Acquire and release, gpu scope, for relaxed operations before and after. */
static inline void portbar_word_fence(void)
{
    __asm__ volatile("fence.acq_rel.gpu;" ::: "memory");
}
</%def>
