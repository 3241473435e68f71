## -*- coding: utf-8 -*-
## Words of 32 bits in global memory by OpenCL C 2.0 atomics at device scope.
<%def name="word_load()">
/* Relaxed load, device scope. One work-item; no ordering; one load. */
static inline uint portbar_word_load(volatile global uint *p)
{
    return atomic_load_explicit((volatile global atomic_uint *)p, memory_order_relaxed, memory_scope_device);
}
</%def>
<%def name="word_load_acquire()">
/* Acquire load, device scope: what the releasing work-item saw before its release is visible afterwards. */
static inline uint portbar_word_load_acquire(volatile global uint *p)
{
    return atomic_load_explicit((volatile global atomic_uint *)p, memory_order_acquire, memory_scope_device);
}
</%def>
<%def name="word_store()">
/* Relaxed store, device scope. */
static inline void portbar_word_store(volatile global uint *p, uint v)
{
    atomic_store_explicit((volatile global atomic_uint *)p, v, memory_order_relaxed, memory_scope_device);
}
</%def>
<%def name="word_store_release()">
/* Release store, device scope. */
static inline void portbar_word_store_release(volatile global uint *p, uint v)
{
    atomic_store_explicit((volatile global atomic_uint *)p, v, memory_order_release, memory_scope_device);
}
</%def>
<%def name="word_add()">
/* Acquire-release fetch-and-add, device scope; returns the old value. */
static inline uint portbar_word_add(volatile global uint *p, uint v)
{
    return atomic_fetch_add_explicit((volatile global atomic_uint *)p, v, memory_order_acq_rel, memory_scope_device);
}
</%def>
<%def name="word_add_release()">
/* Release fetch-and-add, device scope; returns the old value. The caller acquires before it relies on it. */
static inline uint portbar_word_add_release(volatile global uint *p, uint v)
{
    return atomic_fetch_add_explicit((volatile global atomic_uint *)p, v, memory_order_release, memory_scope_device);
}
</%def>
<%def name="word_or()">
/* Release fetch-and-or, device scope; returns the old value. */
static inline uint portbar_word_or(volatile global uint *p, uint v)
{
    return atomic_fetch_or_explicit((volatile global atomic_uint *)p, v, memory_order_release, memory_scope_device);
}
</%def>
<%def name="word_exchange()">
/* Acquire-release exchange, device scope; returns the old value. */
static inline uint portbar_word_exchange(volatile global uint *p, uint v)
{
    return atomic_exchange_explicit((volatile global atomic_uint *)p, v, memory_order_acq_rel, memory_scope_device);
}
</%def>
<%def name="word_compare_exchange()">
/* Acquire-release compare-and-exchange, device scope; returns the value found, equal to `expected` on success. */
static inline uint portbar_word_compare_exchange(volatile global uint *p, uint expected, uint desired)
{
    uint found = expected;
    atomic_compare_exchange_strong_explicit((volatile global atomic_uint *)p, &found, desired,
                                            memory_order_acq_rel, memory_order_acquire, memory_scope_device);
    return found;
}
</%def>
