## -*- coding: utf-8 -*-
## NVIDIA devices before sm_70, whose PTX has no memory orders: relaxed instructions, and membar before and after them.
<%def name="word_load()">
/* Relaxed load. */
static inline uint portbar_word_load(volatile global uint *p)
{
    uint v;
    __asm__ volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
</%def>
<%def name="word_load_acquire()">
/* Acquire load, gpu scope: load, then membar.gl. */
static inline uint portbar_word_load_acquire(volatile global uint *p)
{
    uint v;
    __asm__ volatile("ld.volatile.global.u32 %0, [%1];\n\tmembar.gl;" : "=r"(v) : "l"(p) : "memory");
    return v;
}
</%def>
<%def name="word_store()">
/* Relaxed store. */
static inline void portbar_word_store(volatile global uint *p, uint v)
{
    __asm__ volatile("st.volatile.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}
</%def>
<%def name="word_store_release()">
/* Release store, gpu scope: membar.gl, then store. */
static inline void portbar_word_store_release(volatile global uint *p, uint v)
{
    __asm__ volatile("membar.gl;\n\tst.volatile.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}
</%def>
<%def name="word_add()">
/* Acquire-release fetch-and-add, gpu scope; returns the old value. */
static inline uint portbar_word_add(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("membar.gl;\n\tatom.global.add.u32 %0, [%1], %2;\n\tmembar.gl;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_add_release()">
/* Release fetch-and-add, gpu scope; returns the old value. The caller acquires before it relies on it. */
static inline uint portbar_word_add_release(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("membar.gl;\n\tatom.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_or()">
/* Release fetch-and-or, gpu scope; returns the old value. */
static inline uint portbar_word_or(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("membar.gl;\n\tatom.global.or.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_exchange()">
/* Acquire-release exchange, gpu scope; returns the old value. */
static inline uint portbar_word_exchange(volatile global uint *p, uint v)
{
    uint old;
    __asm__ volatile("membar.gl;\n\tatom.global.exch.b32 %0, [%1], %2;\n\tmembar.gl;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
</%def>
<%def name="word_compare_exchange()">
/* Acquire-release compare-and-exchange, gpu scope; returns the value found, equal to `expected` on success. */
static inline uint portbar_word_compare_exchange(volatile global uint *p, uint expected, uint desired)
{
    uint old;
    __asm__ volatile("membar.gl;\n\tatom.global.cas.b32 %0, [%1], %2, %3;\n\tmembar.gl;" : "=r"(old) : "l"(p), "r"(expected), "r"(desired) : "memory");
    return old;
}
</%def>
