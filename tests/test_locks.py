"""Locks that outlast exceptions between being taken and being used."""

from __future__ import annotations

import signal
import sys
import threading
import time

import pytest

from portbar.locks import Lock


def is_free(lock: Lock) -> bool:
    """Whether another thread can take the lock."""
    found = []
    thread = threading.Thread(target=lambda: found.append(Lock.acquire(lock, blocking=False)))
    thread.start()
    thread.join()
    return found == [True]


class Interrupted(Lock):
    """A lock whose taker is interrupted as it has taken it."""

    def acquire(self, *args):
        super().acquire(*args)
        raise KeyboardInterrupt


@pytest.mark.skipif(sys.version_info < (3, 14), reason="older ones look for no signal there")
def test_an_exception_as_a_lock_is_taken_gives_it_back_as_it_was():
    lock = Interrupted()
    with pytest.raises(KeyboardInterrupt), lock:
        pytest.fail("the statement began")
    assert is_free(lock)
    Lock.acquire(lock)
    with pytest.raises(KeyboardInterrupt), lock:
        pytest.fail("the statement began")
    assert not is_free(lock)
    lock.release()
    assert is_free(lock)


def test_a_lock_is_taken_again_by_its_thread_and_held_until_the_first_statement_ends():
    lock = Lock()
    with lock:
        with lock:
            pass
        assert not is_free(lock)
    assert is_free(lock)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that raise signals")
def test_signals_in_a_loop_of_statements_leave_a_lock_free():
    lock, before = Lock(), signal.signal(signal.SIGALRM, signal.default_int_handler)
    end = time.monotonic() + 0.5
    try:
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0001)
                while time.monotonic() < end + 1:
                    with lock:
                        pass
            except KeyboardInterrupt:
                pass
            # Python says so if this thread holds it.
            with pytest.raises(RuntimeError):
                lock.release()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
