## -*- coding: utf-8 -*-
## Mutual exclusion between work-groups: the two locks of the published occupancy-bound protocol, every wait bounded.
<%def name="types()">
${defines("portbar_spin_lock")}
/* A free lock is all zero. Only one work-item of a work-group at a time may hold or wait for a lock: a second work-item
   of the same group that waits for it may keep the first from ever running. Every group that holds a lock must be able
   to run to the release:
   on a device that runs one group at a time no other group is waiting, other devices must let groups progress
   independently (see `portbar survey`). */
typedef struct {
    uint held;
} portbar_spin_lock;

${defines("portbar_ticket_lock")}
/* First come, first served; the fairness is what makes discovery find every group (Sorensen et al., OOPSLA 2016). */
typedef struct {
    uint next;
    uint serving;
} portbar_ticket_lock;

${defines("PORTBAR_LOCK_POLLS")}
/* Polls that an acquire makes before it gives up: some seconds on this device. */
#ifndef PORTBAR_LOCK_POLLS
#define PORTBAR_LOCK_POLLS ${wait_polls}u
#endif
</%def>
<%def name="spin_lock()">
${defines("portbar_spin_lock_try_acquire")}
/* Tries at most `polls` times (at least once) to take the lock. Caller: one work-item of a group. Order: acquire at
   device scope, global memory: stores of the previous holder are visible. Result: true if the caller has the lock.
   Cost: an exchange, and a load per poll. */
static inline bool portbar_spin_lock_try_acquire(volatile global portbar_spin_lock *lock, uint polls)
{
    uint i = 0u;
    do {
        /* The exchange writes; those who wait only read until it may succeed. */
        if (${poll("held")} == 0u
            && portbar_atomic_exchange_explicit(&lock->held, 1u, memory_order_relaxed, memory_scope_device) == 0u) {
            portbar_atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, memory_scope_device);
            return true;
        }
        if ((i & 63u) == 63u)
            portbar_between_polls(i >> 6);
    } while (++i < ${rolled("polls")});
    return false;
}
${defines("portbar_spin_lock_acquire")}
/* Takes the lock. Caller: one work-item of a group. Order: acquire at device scope, global memory. Result: false when
   PORTBAR_LOCK_POLLS polls did not get it, and then the caller must not go on as its holder. Cost: an exchange, and a
   load per poll. */
static inline bool portbar_spin_lock_acquire(volatile global portbar_spin_lock *lock)
{
    return portbar_spin_lock_try_acquire(lock, PORTBAR_LOCK_POLLS);
}
${defines("portbar_spin_lock_release")}
/* Gives the lock back. Caller: the work-item that took it. Order: release at device scope, global memory. Cost: a
   store. */
static inline void portbar_spin_lock_release(volatile global portbar_spin_lock *lock)
{
    portbar_atomic_store_explicit(&lock->held, 0u, memory_order_release, memory_scope_device);
}
</%def>
<%def name="ticket_lock()">
${defines("portbar_ticket_lock_try_acquire")}
/* Takes the lock if it becomes free within `polls` polls (at least one). It draws a ticket only if that is served at
   once, so giving up has no side effects, and work-items that wait in `portbar_ticket_lock_acquire` come first.
   Caller: one work-item of a group. Order: acquire at device scope, global memory. Result: true if the caller has the
   lock. Cost: a compare-exchange, and a load per poll. */
static inline bool portbar_ticket_lock_try_acquire(volatile global portbar_ticket_lock *lock, uint polls)
{
    uint i = 0u;
    do {
        uint ticket = ${poll("serving")};
        if (portbar_atomic_compare_exchange_strong_explicit(&lock->next, &ticket, ticket + 1u, memory_order_relaxed,
                                                            memory_order_relaxed, memory_scope_device)) {
            /* The ticket was the one served when it was read, and no other work-item can have advanced it since. */
            (void)portbar_atomic_load_explicit(&lock->serving, memory_order_acquire, memory_scope_device);
            return true;
        }
        if ((i & 63u) == 63u)
            portbar_between_polls(i >> 6);
    } while (++i < ${rolled("polls")});
    return false;
}
${defines("portbar_ticket_lock_acquire")}
/* Draws a ticket and waits until it is served. A ticket cannot be handed back, so after a false the lock is lost to
   all who come later: their waits end in the same way. Caller: one work-item of a group. Order: acquire at device
   scope, global memory. Result: false after PORTBAR_LOCK_POLLS polls. Cost: an atomic addition, and a load per poll. */
static inline bool portbar_ticket_lock_acquire(volatile global portbar_ticket_lock *lock)
{
    const uint ticket = portbar_atomic_fetch_add_explicit(&lock->next, 1u, memory_order_relaxed, memory_scope_device);
    for (uint i = 0; i < ${rolled("PORTBAR_LOCK_POLLS")}; ++i) {
        if (${poll("serving")} == ticket) {
            (void)portbar_atomic_load_explicit(&lock->serving, memory_order_acquire, memory_scope_device);
            return true;
        }
        if ((i & 63u) == 63u)
            portbar_between_polls(i >> 6);
    }
    return false;
}
${defines("portbar_ticket_lock_release")}
/* Gives the lock to the next ticket. Caller: the work-item that took it. Order: release at device scope, global
   memory. Cost: a load and a store. */
static inline void portbar_ticket_lock_release(volatile global portbar_ticket_lock *lock)
{
    const uint ticket = portbar_atomic_load_explicit(&lock->serving, memory_order_relaxed, memory_scope_device);
    portbar_atomic_store_explicit(&lock->serving, ticket + 1u, memory_order_release, memory_scope_device);
}
</%def>
