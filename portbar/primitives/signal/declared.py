"""`portbar/signal.h` as the reader of authors' programs sees it."""

from __future__ import annotations

from typing import Final

DECLARED: Final = """\
#define PORTBAR_SIGNAL 1
#define PORTBAR_SIGNAL_MAX 0x7fffffffu
typedef struct { uint value; } portbar_signal;
void portbar_signal_add(const portbar_grid *grid, volatile global portbar_signal *signal, uint n);
void portbar_signal_set(const portbar_grid *grid, volatile global portbar_signal *signal, uint value);
bool portbar_signal_test(const portbar_grid *grid, volatile global portbar_signal *signal, uint value);
PORTBAR_FALSE_IS_FAILURE bool portbar_signal_wait_until_at_least(
    const portbar_grid *grid, volatile global portbar_signal *signal, uint value);
#define portbar_device_wait_until(grid, condition) portbar_device_waits(grid, (condition) ? 1 : 0)
PORTBAR_CALLED_BY_WORK_GROUP void portbar_work_group_signal_add(
    const portbar_grid *grid, volatile global portbar_signal *signal, uint n);
PORTBAR_CALLED_BY_WORK_GROUP void portbar_work_group_signal_set(
    const portbar_grid *grid, volatile global portbar_signal *signal, uint value);
PORTBAR_CALLED_BY_WORK_GROUP PORTBAR_FALSE_IS_FAILURE bool portbar_work_group_signal_wait_until_at_least(
    portbar_grid *grid, volatile global portbar_signal *signal, uint value);
PORTBAR_CALLED_BY_GRID PORTBAR_FALSE_IS_FAILURE bool portbar_device_signals_clear(
    portbar_grid *grid, volatile global portbar_signal *signals, uint count);
"""
