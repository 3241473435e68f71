"""`portbar/scan.h` as the reader of authors' programs sees it."""

from __future__ import annotations

from collections.abc import Iterable


def declared(scans: Iterable[tuple[str, list[str]]] = ()) -> str:
    """The header with the functions of some scans, each by its name and the types of its values, declared."""
    lines = [
        "#define PORTBAR_SCAN 1",
        "#define PORTBAR_SCAN_PARAM volatile global uint *portbar_scan_param, const uint4 portbar_scan_launch",
    ]
    for name, typedefs in scans:
        value, kind = f"{name}_value", f"{name}_scan"
        lines += [
            *typedefs,
            f"typedef struct {{ uint tile; }} {kind};",
            f"{value} {name}_combine({value} a, {value} b);",
            f"{value} {name}_neutral(void);",
            f"PORTBAR_CALLED_BY_WORK_GROUP uint {name}_begin(local {kind} *scan);",
            f"PORTBAR_CALLED_BY_WORK_GROUP void {name}_publish(local {kind} *scan, {value} mine);",
            f"bool {name}_missing(local {kind} *scan);",
            f"uint {name}_missing_tile(local {kind} *scan);",
            f"PORTBAR_CALLED_BY_WORK_GROUP void {name}_supply(local {kind} *scan, {value} mine);",
            f"{value} {name}_inclusive(local {kind} *scan);",
            f"{value} {name}_exclusive(local {kind} *scan);",
        ]
    return "\n".join(lines) + "\n"
