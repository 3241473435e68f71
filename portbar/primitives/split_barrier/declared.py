"""`portbar/split_barrier.h` as the reader of authors' programs sees it.

The macros of a device's features say who must reach a wait.
"""

from __future__ import annotations

from typing import Final

DECLARED: Final = """\
#define PORTBAR_SPLIT_BARRIER 1
#define PORTBAR_COPY_ASYNC 1
#ifndef PORTBAR_SPLIT_BARRIER_POLLS
#define PORTBAR_SPLIT_BARRIER_POLLS 0x7fffffffu
#endif
typedef ulong portbar_arrival_token;
typedef struct __attribute__((aligned(8))) { uint words[4]; } portbar_split_barrier;
uint portbar_split_barrier_max(void);
uint portbar_split_barrier_fault(local portbar_split_barrier *b);
void portbar_split_barrier_initialize(local portbar_split_barrier *b, uint expected);
void portbar_split_barrier_invalidate(local portbar_split_barrier *b);
portbar_arrival_token portbar_split_barrier_arrive(local portbar_split_barrier *b);
portbar_arrival_token portbar_split_barrier_arrive_no_complete(local portbar_split_barrier *b, uint count);
portbar_arrival_token portbar_split_barrier_arrive_count(local portbar_split_barrier *b, uint count);
portbar_arrival_token portbar_split_barrier_arrive_and_drop(local portbar_split_barrier *b);
portbar_arrival_token portbar_split_barrier_arrive_and_drop_no_complete(local portbar_split_barrier *b, uint count);
void portbar_split_barrier_arrive_copy_async(local portbar_split_barrier *b);
void portbar_split_barrier_arrive_copy_async_no_inc(local portbar_split_barrier *b);
uint portbar_split_barrier_pending_count(portbar_arrival_token token);
bool portbar_split_barrier_test_wait(local portbar_split_barrier *b, portbar_arrival_token token);
bool portbar_split_barrier_test_wait_parity(local portbar_split_barrier *b, uint parity);
bool portbar_split_barrier_try_wait(local portbar_split_barrier *b, portbar_arrival_token token, uint polls);
bool portbar_split_barrier_try_wait_parity(local portbar_split_barrier *b, uint parity, uint polls);
#if defined(PORTBAR_SPLIT_BARRIER_DIVERGENT) || defined(PORTBAR_SPLIT_BARRIER_SUBSET)
#define PORTBAR_CALLED_BY_WAITERS
#elif defined(PORTBAR_SPLIT_BARRIER_SUB_GROUPS)
#define PORTBAR_CALLED_BY_WAITERS PORTBAR_CALLED_BY_SUB_GROUP
#else
#define PORTBAR_CALLED_BY_WAITERS PORTBAR_CALLED_BY_WORK_GROUP
#endif
PORTBAR_CALLED_BY_WAITERS bool portbar_split_barrier_wait(
    local portbar_split_barrier *b, portbar_arrival_token token);
PORTBAR_CALLED_BY_WAITERS bool portbar_split_barrier_wait_parity(local portbar_split_barrier *b, uint parity);
PORTBAR_CALLED_BY_WAITERS bool portbar_split_barrier_arrive_and_wait(local portbar_split_barrier *b);
void portbar_copy_async(local void *dst, const global void *src, uint bytes);
void portbar_copy_async_wait(void);
PORTBAR_CALLED_BY_WORK_GROUP void portbar_copy_async_group(local void *dst, const global void *src, uint bytes);
"""
