"""`portbar/atomics.h` as the reader of authors' programs sees it: values from memory, of which nothing is known."""

from __future__ import annotations

from typing import Final

_FETCHED: Final = ("add", "sub", "min", "max", "and", "or", "xor")
_LOADED: Final = "(*(private __typeof__((0, *({0}))) *)portbar_any(((void)({0}){1}, 0)))"


def _lines() -> list[str]:
    made = []
    for name in ("inc", "dec"):
        made += [
            f"#define portbar_atomic_fetch_{name}_explicit(p, order, scope) {_LOADED.format('p', '')}",
            f"#define portbar_atomic_fetch_{name}(p) {_LOADED.format('p', '')}",
            f"#define portbar_atomic_{name}_explicit(p, order, scope) ((void)(p))",
            f"#define portbar_atomic_{name}(p) ((void)(p))",
        ]
    for name in ("exchange", *(f"fetch_{operator}" for operator in _FETCHED)):
        made += [
            f"#define portbar_atomic_{name}_explicit(p, v, order, scope) {_LOADED.format('p', ', (void)(v)')}",
            f"#define portbar_atomic_{name}(p, v) {_LOADED.format('p', ', (void)(v)')}",
        ]
    for name in ("store", *_FETCHED):
        made += [
            f"#define portbar_atomic_{name}_explicit(p, v, order, scope) ((void)(p), (void)(v))",
            f"#define portbar_atomic_{name}(p, v) ((void)(p), (void)(v))",
        ]
    for name in ("strong", "weak"):
        swap = "portbar_swapped(expected, ((void)(p), (void)(desired), 0))"
        head = f"#define portbar_atomic_compare_exchange_{name}"
        made += [
            f"{head}_explicit(p, expected, desired, success, failure, scope) {swap}",
            f"{head}(p, expected, desired) {swap}",
        ]
    return made


DECLARED: Final = "\n".join(
    [
        "#define PORTBAR_ATOMICS 1",
        "bool portbar_swapped(const void *expected, int evaluated);",
        "bool portbar_waited(int evaluated);",
        "#ifndef PORTBAR_ATOMIC_WAIT_POLLS",
        "#define PORTBAR_ATOMIC_WAIT_POLLS 0x7fffffffu",
        "#endif",
        "#define portbar_atomic_work_item_fence(flags, order, scope) ((void)(flags))",
        f"#define portbar_atomic_load_explicit(p, order, scope) {_LOADED.format('p', '')}",
        f"#define portbar_atomic_load(p) {_LOADED.format('p', '')}",
        "#define portbar_atomic_flag_test_and_set_explicit(p, order, scope) portbar_waited(((void)(p), 0))",
        "#define portbar_atomic_flag_test_and_set(p) portbar_waited(((void)(p), 0))",
        "#define portbar_atomic_flag_clear_explicit(p, order, scope) ((void)(p))",
        "#define portbar_atomic_flag_clear(p) ((void)(p))",
        "#define portbar_atomic_wait_explicit(p, old, ...) portbar_waited(((void)(p), (void)(old), 0))",
        "#define portbar_atomic_wait(p, old) portbar_waited(((void)(p), (void)(old), 0))",
        "#define portbar_atomic_notify_one(p) ((void)(p))",
        "#define portbar_atomic_notify_all(p) ((void)(p))",
        "#define PORTBAR_WAIT_PARAM volatile global uint *portbar_reduction_param, const uint4 portbar_reduction_launch",
        *_lines(),
        "",
    ]
)
