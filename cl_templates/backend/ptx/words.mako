## -*- coding: utf-8 -*-
## Words of 32 bits in global memory by NVIDIA's PTX memory model (sm_70 and later), at gpu scope.
<%def name="word_load()">
/* Relaxed load, gpu scope. */
static inline uint portbar_word_load(volatile global uint *p)
{
    uint v;
    __asm__ volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
</%def>
<%def name="word_load_acquire()">
/* Acquire load, gpu scope. */
static inline uint portbar_word_load_acquire(volatile global uint *p)
{
    uint v;
    __asm__ volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
</%def>
<%def name="word_store()">
/* Relaxed store, gpu scope. */
static inline void portbar_word_store(volatile global uint *p, uint v)
{
    __asm__ volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}
</%def>
<%def name="word_store_release()">
/* Release store, gpu scope. */
static inline void portbar_word_store_release(volatile global uint *p, uint v)
{
    __asm__ volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}
</%def>
<%def name="word_add()">
/* Acquire-release fetch-and-add, gpu scope; returns the old value. */
static inline uint portbar_word_add(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_add_release()">
/* Release fetch-and-add, gpu scope; returns the old value. The caller acquires before it relies on it. */
static inline uint portbar_word_add_release(volatile global uint *p, uint v)
{
    uint old;
% if one_way_fences:
    __asm__ volatile("fence.release.gpu;\n\t"
                     "atom.add.relaxed.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
% else:
    __asm__ volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
% endif
    return old;
}
</%def>
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
<%def name="word_or()">
/* Release fetch-and-or, gpu scope; returns the old value. */
static inline uint portbar_word_or(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("atom.or.release.gpu.global.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_exchange()">
/* Acquire-release exchange, gpu scope; returns the old value. */
static inline uint portbar_word_exchange(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("atom.exch.acq_rel.gpu.global.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_compare_exchange()">
/* Acquire-release compare-and-exchange, gpu scope; returns the value found, equal to `expected` on success. */
static inline uint portbar_word_compare_exchange(volatile global uint *p, uint expected, uint desired)
{
    uint found;
    __asm__ volatile("atom.cas.acq_rel.gpu.global.b32 %0, [%1], %2, %3;"
                     : "=r"(found) : "l"(p), "r"(expected), "r"(desired) : "memory");
    return found;
}
</%def>
