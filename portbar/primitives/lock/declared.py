"""`portbar/lock.h` as the reader of authors' programs sees it."""

from __future__ import annotations

from typing import Final

DECLARED: Final = """\
#define PORTBAR_LOCK 1
#ifndef PORTBAR_LOCK_POLLS
#define PORTBAR_LOCK_POLLS 0x7fffffffu
#endif
typedef struct { uint word; } portbar_spin_lock;
typedef struct { uint next, serving; } portbar_ticket_lock;
bool portbar_spin_lock_try_acquire(volatile global portbar_spin_lock *lock, uint polls);
bool portbar_spin_lock_acquire(volatile global portbar_spin_lock *lock);
void portbar_spin_lock_release(volatile global portbar_spin_lock *lock);
bool portbar_ticket_lock_try_acquire(volatile global portbar_ticket_lock *lock, uint polls);
bool portbar_ticket_lock_acquire(volatile global portbar_ticket_lock *lock);
void portbar_ticket_lock_release(volatile global portbar_ticket_lock *lock);
"""
