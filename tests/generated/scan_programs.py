"""Programs without a grid, whose kernel makes a scan over all work-groups by `portbar/scan.h`.

A work-group is known by the tile that it takes, since no group knows which one it gets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.generated.collectives import scanned
from tests.generated.expressions import Number
from tests.generated.interpreter import Machine
from tests.generated.programs import IDS, Program
from tests.generated.tree import Block, Expression
from tests.generated.writer import Writer


@dataclass
class ScanProgram(Program):
    """`body`, a scan of `value`, which follows from the place of a work-item alone, then `after`."""

    value: Expression = field(default_factory=lambda: Number(1))
    operator: str = "add"
    exclusive: bool = True
    after: Block = field(default_factory=list)

    first_header = "scan"
    first_parameter = "PORTBAR_SCAN_PARAM"

    @property
    def tops(self) -> list[Block]:
        return [self.body, self.after]

    def write_macros(self, writer: Writer) -> None:
        writer.add(f"#define RANK_OF(group) {self.value.text(writer)}")

    def write_entry(self, writer: Writer) -> None:
        writer.add("local rank_scan scan;")
        writer.add("const uint group = rank_begin(&scan), groups = (uint)get_num_groups(0);")
        self.write_parts(writer)
        writer.add(IDS)
        writer.add("const uint me = group * items + lid, all = groups * items;")

    def write_statements(self, writer: Writer) -> None:
        writer.block(self.body)
        writer.add("rank_publish(&scan, RANK_OF(group));")
        writer.add("while (rank_missing(&scan))")
        writer.add("    rank_supply(&scan, RANK_OF(rank_missing_tile(&scan)));")
        writer.add(f"v0 += rank_{'exclusive' if self.exclusive else 'inclusive'}(&scan);")
        writer.block(self.after)

    def execute(self, machine: Machine) -> None:
        machine.block(self.body)
        machine.of_grid()
        found = scanned(self.operator, self.value.value(machine), exclusive=self.exclusive)
        machine.assign("v0", machine.names["v0"] + found)
        machine.block(self.after)
