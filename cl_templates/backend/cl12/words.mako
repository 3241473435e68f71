## -*- coding: utf-8 -*-
## Words of 32 bits in global memory by OpenCL 1.2 atomics and fences, for devices whose ordering the probe confirmed.
<%def name="word_fence()">
/* OpenCL 1.2 has no fence between work-groups. The strongest that it has is issued both ways; whether it orders memory
   across work-groups on this device was measured by portbar's ordering probe, not read in a specification. */
static inline void portbar_word_fence(void)
{
    write_mem_fence(CLK_GLOBAL_MEM_FENCE);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    read_mem_fence(CLK_GLOBAL_MEM_FENCE);
}
</%def>
<%def name="word_load()">
/* Relaxed load. A read-modify-write, since OpenCL 1.2 does not promise that a plain load ever sees another group's store. */
static inline uint portbar_word_load(volatile global uint *p)
{
    return atomic_or(p, 0u);
}
</%def>
<%def name="word_load_acquire()">
/* Acquire load: load, then fence. */
static inline uint portbar_word_load_acquire(volatile global uint *p)
{
    const uint v = atomic_or(p, 0u);
    portbar_word_fence();
    return v;
}
</%def>
<%def name="word_store()">
/* Relaxed store. */
static inline void portbar_word_store(volatile global uint *p, uint v)
{
    atomic_xchg(p, v);
}
</%def>
<%def name="word_store_release()">
/* Release store: fence, then store. */
static inline void portbar_word_store_release(volatile global uint *p, uint v)
{
    portbar_word_fence();
    atomic_xchg(p, v);
}
</%def>
<%def name="word_add()">
/* Acquire-release fetch-and-add; returns the old value. */
static inline uint portbar_word_add(volatile global uint *p, uint v)
{
    portbar_word_fence();
    const uint old = atomic_add(p, v);
    portbar_word_fence();
    return old;
}
</%def>
<%def name="word_add_release()">
/* Release fetch-and-add; returns the old value. The caller acquires before it relies on it. */
static inline uint portbar_word_add_release(volatile global uint *p, uint v)
{
    portbar_word_fence();
    return atomic_add(p, v);
}
</%def>
<%def name="word_or()">
/* Release fetch-and-or; returns the old value. */
static inline uint portbar_word_or(volatile global uint *p, uint v)
{
    portbar_word_fence();
    return atomic_or(p, v);
}
</%def>
<%def name="word_exchange()">
/* Acquire-release exchange; returns the old value. */
static inline uint portbar_word_exchange(volatile global uint *p, uint v)
{
    portbar_word_fence();
    const uint old = atomic_xchg(p, v);
    portbar_word_fence();
    return old;
}
</%def>
<%def name="word_compare_exchange()">
/* Acquire-release compare-and-exchange; returns the value found, equal to `expected` on success. */
static inline uint portbar_word_compare_exchange(volatile global uint *p, uint expected, uint desired)
{
    portbar_word_fence();
    const uint found = atomic_cmpxchg(p, expected, desired);
    portbar_word_fence();
    return found;
}
</%def>
