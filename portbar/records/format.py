"""The objects of a record, format 2, as types: of what `records.load` returns, and of which its schema is made.

`portbar.device.schema` writes that. A device's facts, findings and address are the classes of `portbar.device` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar

from portbar.records.classes import Rule, Text, ruled

Seconds: TypeAlias = Annotated[float | None, Rule("seconds", minimum=0)]
Time: TypeAlias = Annotated[
    str,
    Rule("time", pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|\+00:00)$"),
]
Version: TypeAlias = Annotated[str | None, Rule("version", maxLength=100)]
Seed: TypeAlias = Annotated[int | None, Rule(minimum=0)]

#: Statuses of a reading without a value.
Why: TypeAlias = Literal["unsupported", "skipped", "refused", "error", "crash", "timeout", "interrupted"]
Unit: TypeAlias = Literal["us", "ns", "s", "work-groups", "work-items", "bytes", "1", "1/s", "polls/s", "instances"]


class Missing(TypedDict):
    """A reading without a value, and why."""

    status: Why
    reason: Annotated[str, Rule(minLength=1, maxLength=8000)]


class Measured(TypedDict):
    """A reading that has a value."""

    value: Annotated[float | str | bool, Rule(maxLength=300)]
    unit: NotRequired[Unit]
    samples: NotRequired[Annotated[list[float], Rule(maxItems=100_000)]]
    min: NotRequired[float]
    max: NotRequired[float]
    mean: NotRequired[float]
    note: NotRequired[Text]


Reading: TypeAlias = Annotated[
    Missing | Measured, Rule("reading", description="A value with its unit, or a status with its reason.")
]
Quantity: TypeAlias = Annotated[
    Reading,
    Rule(
        "quantity",
        **{"if": {"required": ["value"]}, "then": {"required": ["unit"], "properties": {"value": {"type": "number"}}}},
        description="A reading whose value is a number with a unit.",
    ),
]
Flag: TypeAlias = Annotated[
    Reading,
    Rule(
        "flag",
        properties={"value": {"type": "boolean"}},
        description="A reading whose value is true or false.",
    ),
]


class ProbeRow(TypedDict):
    """One probe's finding."""

    probe: str
    result: Reading
    partial: NotRequired[bool]


class OccupancyRow(TypedDict):
    """How many work-groups one way of discovery found, of one shape."""

    local_size: Annotated[int | None, Rule(description="Work-items per work-group.")]
    local_bytes: Annotated[int | None, Rule(description="Local memory per work-group.")]
    lock: str
    patience: Annotated[bool, Rule(description="Whether the poll waits for groups that have not arrived.")]
    launched: NotRequired[int | None]
    occupancy: NotRequired[Quantity]
    found: Quantity
    launch_time: NotRequired[Quantity]
    vendor_bound: NotRequired[Quantity]
    computed_bound: NotRequired[Quantity]
    best_known_groups: NotRequired[int | None]
    recall: NotRequired[Quantity]
    recall_of_vendor_bound: NotRequired[Quantity]
    partial: NotRequired[bool]


class BarrierRow(TypedDict):
    """The time of one barrier algorithm, and of launches, at one number of work-groups."""

    algorithm: str
    groups: int
    local_size: int
    rounds: NotRequired[Annotated[int | None, Rule(description="Barriers per launch.")]]
    barrier_time: Quantity
    relaunch_time: Quantity
    enqueue_time: NotRequired[Annotated[Quantity, Rule(description="The host, for each launch that does not wait.")]]
    gap_time: NotRequired[
        Annotated[Quantity, Rule(description="The device, between two launches that were enqueued before.")]
    ]
    launch_time: NotRequired[
        Annotated[Quantity, Rule(description="An empty launch without a grid, and a wait for it.")]
    ]
    grid_time: NotRequired[Annotated[Quantity, Rule(description="A launch that enters its grid, and a wait for it.")]]
    check_time: NotRequired[
        Annotated[Quantity, Rule(description="A word written by the host, an empty launch, the word read.")]
    ]
    partial: NotRequired[bool]


class Forbidden(TypedDict):
    """How often a litmus test gave a result that the memory model forbids."""

    test: str
    count: int


class LitmusRow(TypedDict):
    """The verdict of the litmus tests on one strategy of atomics."""

    strategy: str
    verdict: Annotated[Reading, Rule(properties={"value": {"enum": ["pass", "fail"]}})]
    tests: NotRequired[int | None]
    instances: NotRequired[Quantity]
    forbidden: NotRequired[Annotated[list[Forbidden], Rule(maxItems=1000)]]
    seed: NotRequired[Seed]
    partial: NotRequired[bool]


class AtomicsRow(TypedDict):
    """One atomic operation."""

    operation: str
    type: str
    space: Literal["global", "local"]
    implementation: str
    result: Flag
    time: NotRequired[Quantity]
    partial: NotRequired[bool]


class SplitBarrierRow(TypedDict):
    """One implementation of the split barrier."""

    strategy: str
    local_size: int
    chosen: bool
    time: Annotated[Quantity, Rule(description="An arrive and a wait.")]
    barrier_time: NotRequired[Annotated[Quantity, Rule(description="The work-group barrier of OpenCL.")]]
    partial: NotRequired[bool]


class ReductionRow(TypedDict):
    """One way to reduce at one level."""

    level: Literal["sub_group", "work_group", "device"]
    operation: str
    type: str
    local_size: int | None
    groups: NotRequired[int | None]
    strategy: str
    chosen: bool
    time: Quantity
    built_in_time: NotRequired[Quantity]
    partial: NotRequired[bool]


class AnswersRow(TypedDict):
    """A program with a known answer."""

    program: str
    primitive: str
    result: Annotated[Flag, Rule(description="Whether the answer was right; the note says what was wrong.")]
    groups: NotRequired[Annotated[int | None, Rule(description="Work-groups of its grid.")]]
    time: NotRequired[Annotated[Quantity, Rule(description="Its process, compilers included.")]]
    partial: NotRequired[bool]


class ArraysRow(TypedDict):
    """A call on an array beside PyOpenCL's."""

    operation: str
    type: str
    elements: int
    peer: str
    time: Quantity
    peer_time: NotRequired[Quantity]
    partial: NotRequired[bool]


StepStatus: TypeAlias = Annotated[
    Literal["ok", "partial", "error", "crash", "timeout", "interrupted", "skipped"], Rule("stepStatus")
]
Row = TypeVar("Row")


@ruled("step")
class StepResults(TypedDict, Generic[Row]):
    """The results of a step of the survey in the entry of a device."""

    status: StepStatus
    reason: NotRequired[Text]
    seconds: NotRequired[Seconds]
    unsteady: NotRequired[Annotated[bool, Rule(description="Whether the times vary too much to choose by.")]]
    seed: NotRequired[Seed]
    rows: Annotated[list[Row], Rule(maxItems=20_000)]


class Verdict(TypedDict):
    """Whether a device works."""

    usable: bool
    reason: Text
    remedy: Text


class KnownQuirk(TypedDict):
    """A known fault of the device."""

    name: str
    fault: Text
    workaround: Text


class ChosenValue(TypedDict):
    """A choice of portbar's, with its reason."""

    value: str
    reason: Text


@ruled(
    "device",
    patternProperties={
        "^x_[a-z0-9_]{1,60}$": {
            "description": "A step from outside of portbar: its rows have members of its own.",
            "$ref": "#/$defs/step",
            "properties": {"rows": {"items": {"type": "object", "maxProperties": 100}}},
        }
    },
)
class Entry(TypedDict):
    """One device of a record."""

    address: NotRequired[Annotated[Mapping[str, Any], Rule("address")]]
    facts: Annotated[Mapping[str, Any], Rule("facts")]
    status: Literal["waiting", "partial", "complete", "unusable", "refused", "failed", "published"]
    reason: NotRequired[Text]
    seconds: NotRequired[Seconds]
    usable: NotRequired[Verdict]
    quirks: NotRequired[Annotated[list[KnownQuirk], Rule(maxItems=200)]]
    findings: NotRequired[Annotated[Mapping[str, Any] | None, Rule("findings")]]
    strategy: NotRequired[Annotated[dict[str, ChosenValue], Rule(maxProperties=50)]]
    probe: NotRequired[StepResults[ProbeRow]]
    occupancy: NotRequired[StepResults[OccupancyRow]]
    barrier: NotRequired[StepResults[BarrierRow]]
    litmus: NotRequired[StepResults[LitmusRow]]
    atomics: NotRequired[StepResults[AtomicsRow]]
    split_barrier: NotRequired[StepResults[SplitBarrierRow]]
    reduction: NotRequired[StepResults[ReductionRow]]
    answers: NotRequired[StepResults[AnswersRow]]
    arrays: NotRequired[StepResults[ArraysRow]]


@ruled("source")
class Publication(TypedDict):
    """The publication that a record was taken over from."""

    title: str
    authors: list[str]
    year: Annotated[int, Rule(minimum=1950, maximum=2200)]
    venue: str
    note: NotRequired[Text]


class Portbar(TypedDict):
    """The portbar that measured."""

    version: str


@ruled("invocation")
class Invocation(TypedDict):
    """The options of the survey."""

    command: str
    quick: bool
    timeout_s: Annotated[float | None, Rule(minimum=0)]
    devices: NotRequired[
        Annotated[list[str] | None, Rule(description="The devices that --device named; null where that is not known.")]
    ]


class Loader(TypedDict):
    """The library that finds drivers."""

    name: Version
    version: Version


@ruled("environment")
class Environment(TypedDict):
    """The machine without what identifies it."""

    system: Version
    release: Version
    machine: Version
    python: Version
    pyopencl: Version
    numpy: Version
    loader: Loader | None
    packages: NotRequired[
        Annotated[dict[str, Version], Rule(maxProperties=50, description="Other packages that portbar uses.")]
    ]
    #: Those that set the number or use of threads in CPU runtimes.
    variables: NotRequired[Annotated[dict[str, Text], Rule(maxProperties=20)]]


_RECORD: Final[dict[str, Any]] = {
    "title": "portbar record, format 2",
    "description": "The behaviour of OpenCL devices between work-groups. A value is measured or missing with a reason; nothing "
    "names the machine's owner.",
    "if": {"properties": {"kind": {"const": "published"}}},
    "then": {
        "required": ["source"],
        "properties": {
            "devices": {"items": {"properties": {"status": {"const": "published"}, "findings": {"type": "null"}}}}
        },
    },
    "else": {
        "required": ["seconds", "seed", "portbar", "invocation", "environment"],
        "not": {"required": ["source"]},
        "properties": {
            "devices": {
                "items": {
                    "required": ["address", "seconds"],
                    "properties": {"status": {"not": {"const": "published"}}},
                }
            }
        },
    },
}


@ruled(**_RECORD)
class Record(TypedDict):
    """The results of a survey of some devices, or of a publication."""

    schema: Literal["portbar-record"]
    format: Literal[2]
    kind: Annotated[
        Literal["measured", "published"], Rule(description="Measured by portbar, or taken over from a publication.")
    ]
    source: NotRequired[Publication]
    created: Annotated[Time, Rule(description="When the record was begun.")]
    seconds: NotRequired[
        Annotated[Seconds, Rule(description="All devices together, also where the record holds one of them.")]
    ]
    seed: NotRequired[Annotated[Seed, Rule(description="Seed of the whole run; null where there was none.")]]
    portbar: NotRequired[Portbar]
    invocation: NotRequired[Invocation]
    environment: NotRequired[Environment]
    unlisted: NotRequired[
        Annotated[list[Text], Rule(maxItems=100, description="Drivers whose devices could not be listed, and why.")]
    ]
    partial: Annotated[bool, Rule(description="Whether anything was not measured to its end.")]
    interrupted: Annotated[bool, Rule(description="Whether the user stopped the run.")]
    devices: Annotated[list[Entry], Rule(maxItems=256)]
