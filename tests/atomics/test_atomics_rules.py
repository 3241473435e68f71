"""Uses that `portbar/atomics.h` refuses at build, with the reason; and the nearest valid uses build."""

from __future__ import annotations

import re

import pytest

import portbar
from portbar.device import quirks
from portbar.device.facts import facts
from tests.atomics import support as atomics

pytestmark = [pytest.mark.device, pytest.mark.slow]

LOAD = "*out = portbar_atomic_load_explicit(p, memory_order_{}, memory_scope_device);"
STORE = "portbar_atomic_store_explicit(p, *out, memory_order_{}, memory_scope_device);"
CLEAR = "portbar_atomic_flag_clear_explicit(p, memory_order_{}, memory_scope_device);"
WAIT = "portbar_atomic_wait_explicit(p, *out, memory_order_{}, memory_scope_device);"
SWAP = (
    "T e = *out; "
    "portbar_atomic_compare_exchange_{}_explicit(p, &e, *out, memory_order_{}, memory_order_{}, memory_scope_device);"
)
ADD = "*out = portbar_atomic_fetch_add_explicit(p, *out, {}, {});"
FENCE = "portbar_atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, {}, {});"
OPERATION = "*out = portbar_atomic_fetch_{}_explicit(p, *out, memory_order_relaxed, memory_scope_device);"
SILENT = "portbar_atomic_{}_explicit(p, *out, memory_order_relaxed, memory_scope_device);"
PLAIN = "*out = portbar_atomic_fetch_{}(p, *out);"

#: Operations with one order: the statement, the orders that it may have, and the words that the log must have for others.
ORDERED = {
    "load": (LOAD, atomics.LOADS, ["load", "release"]),
    "store": (STORE, atomics.STORES, ["store", "acquire"]),
    "cleared flag": (CLEAR, atomics.STORES, ["acquire"]),
    "wait": (WAIT, atomics.LOADS, ["release"]),
}
#: Arguments that are unknown at build time, the words that the log must have, and the nearest that builds.
UNKNOWN = {
    f"a{which} {what} that is not known": (form.format(*unknown), [what, "constant"], form.format(*known))
    for which, form in (("n operation's", ADD), (" fence's", FENCE))
    for what, unknown, known in (
        ("order", ("order", "memory_scope_device"), ("memory_order_release", "memory_scope_device")),
        ("scope", ("memory_order_acquire", "order"), ("memory_order_acquire", "memory_scope_sub_group")),
    )
}
#: Those of functions that take values, too.
BESIDE_VALUES = {what for what in UNKNOWN if "operation" in what}
FORMS_OF_SWAP = ("strong", "weak")
FAILURES = [(one, two) for one in atomics.ORDERS for two in atomics.ORDERS if (one, two) not in atomics.PAIRS]
#: Those that the weak form is tried with; it has the same rules.
WEAK = (("relaxed", "acquire"), ("release", "release"), ("acq_rel", "seq_cst"))
FORMS = (OPERATION, SILENT, PLAIN)
#: A chosen order, by an expression.
EXPRESSION = "sizeof(T) == 4 ? memory_order_acq_rel : memory_order_relaxed"
#: All that must build: beside each refusal the nearest legal statement, and one of each operation that other types lack.
LEGAL = (
    *((form.format(order), "uint") for form, legal, _ in ORDERED.values() for order in legal),
    *((legal, "uint") for _, _, legal in UNKNOWN.values()),
    *((SWAP.format(form, *pair), "uint") for form in FORMS_OF_SWAP for pair in atomics.PAIRS),
    *(
        (form.format(name), kind)
        for form in FORMS
        for name in ("and", "or", "xor")
        for kind in ("int", "ushort", "long")
    ),
    *((form.format(name), kind) for form in FORMS for name in ("inc", "dec") for kind in ("uint", "ulong")),
    *((form.format("memory_order_relaxed", "memory_scope_device"), "uint") for form in (ADD, FENCE)),
    (ADD.format(EXPRESSION, "(memory_scope_device)"), "uint"),
    (FENCE.format(EXPRESSION, "(memory_scope_work_group)"), "uint"),
    # Old compilers evaluate no condition of a function beside such values.
    *(
        (statement.replace("*out,", "(*out > 2u || order > 1) ? 1u : *out && order,"), "uint")
        for statement in (
            ADD.format("memory_order_relaxed", "memory_scope_device"),
            STORE.format("release"),
            WAIT.format("acquire"),
        )
    ),
)
#: Each refusal of (statement, words that the log must have in one line, type); an id says what it is.
REFUSALS = {
    **{
        f"{what} {order}": (form.format(order), words, "uint")
        for what, (form, legal, words) in ORDERED.items()
        for order in atomics.ORDERS
        if order not in legal
    },
    **{what: (illegal, words, "uint") for what, (illegal, words, _) in UNKNOWN.items()},
    **{
        f"{form} {success}/{failure}": (SWAP.format(form, success, failure), ["failure"], "uint")
        for success, failure in FAILURES
        for form in FORMS_OF_SWAP
        if form == "strong" or (success, failure) in WEAK
    },
    **{f"{name} of float": (OPERATION.format(name), [f"_{name}"], "float") for name in ("and", "or", "xor")},
    "silent or of float": (SILENT.format("or"), ["_or"], "float"),
    "plain xor of float": (PLAIN.format("xor"), ["_xor"], "float"),
    "and of double": (OPERATION.format("and"), ["_and"], "double"),
    "xor of half": (OPERATION.format("xor"), ["_xor"], "half"),
    "inc of int": (OPERATION.format("inc"), ["_inc"], "int"),
    "dec of int": (OPERATION.format("dec"), ["_dec"], "int"),
    "silent inc of int": (SILENT.format("inc"), ["_inc"], "int"),
    "plain dec of int": (PLAIN.format("dec"), ["_dec"], "int"),
    "inc of uchar": (OPERATION.format("inc"), ["_inc"], "uchar"),
    "dec of long": (OPERATION.format("dec"), ["_dec"], "long"),
    "inc of float": (OPERATION.format("inc"), ["_inc"], "float"),
}
#: A sample of them for strategies other than the default: the rules are in their shared part.
SAMPLE = ("load release", "an operation's order that is not known", "strong relaxed/acquire")


def kernel(statement: str, kind: str, name: str = "k") -> str:
    """The text of a kernel with one statement, in which T is a type."""
    parameters = "volatile global T *p, global T *out, const int order"
    return f"#define T {kind}\nkernel void {name}({parameters})\n{{\n    {statement}\n}}\n#undef T\n"


def source(statement: str, kind: str = "uint") -> str:
    return atomics.pragmas(kind) + atomics.HEADER + kernel(statement, kind)


def build(made: atomics.Setting, text: str) -> portbar.Program:
    return portbar.Program(made.context, text, strategy=dict(made.overrides))


def refuse(made: atomics.Setting, text: str, words: list[str]) -> str:
    """Check that a text does not build, and that the log has all the words in one line; return the log."""
    with pytest.raises(portbar.BuildError) as caught:
        build(made, text)
    lines = [line.lower() for line in caught.value.log.splitlines()]
    # The line that quotes the author's own text has such words by itself.
    spoken = [
        line for line in lines if "error" in line or "undefined" in line or "unresolved" in line or "note" in line
    ]
    assert any(all(word in line for word in words) for line in spoken), caught.value.log
    return caught.value.log


@pytest.fixture(params=atomics.STRATEGIES)
def made(request, context, queue):
    return atomics.setting(context, queue, request.param)


def test_the_nearest_valid_use_builds(made):
    text = atomics.HEADER
    for i, (statement, kind) in enumerate(LEGAL):
        if kind in made.strategy.capabilities.atomics_table.types:
            text += kernel(statement, kind, f"k{i}")
    build(made, text)


@pytest.mark.parametrize(
    ("strategy", "what"),
    [
        (strategy, what)
        for strategy in atomics.STRATEGIES
        for what in REFUSALS
        if strategy == "default" or what in SAMPLE
    ],
)
def test_a_wrong_order_scope_or_type_does_not_build(context, queue, strategy, what):
    statement, words, kind = REFUSALS[what]
    if what in BESIDE_VALUES and quirks.has_effect(quirks.CONSTANTS_UNKNOWN, facts(queue.device)):
        pytest.skip("the compiler does not say whether an argument is a constant beside values")
    refuse(atomics.setting(context, queue, strategy, kind), source(statement, kind), words)


@pytest.mark.parametrize("kind", ["long", "ulong", "double", "half"])
@pytest.mark.parametrize("strategy", atomics.STRATEGIES)
def test_a_type_that_the_device_lacks_is_refused_with_its_name(context, queue, strategy, kind):
    made = atomics.setting(context, queue, strategy)
    if kind in made.strategy.capabilities.atomics_table.types:
        build(made, source(OPERATION.format("add"), kind))
        pytest.skip(f"the device has {kind}")
    with pytest.raises(portbar.BuildError) as caught:
        build(made, source(OPERATION.format("add"), kind))
    assert re.search(kind if kind in {"double", "half"} else "64|long", caught.value.log), caught.value.log


@pytest.mark.parametrize("form", [ADD, FENCE])
def test_a_scope_that_covers_other_devices_is_refused_where_they_share_no_memory(made, form):
    text = source(form.format("memory_order_relaxed", "memory_scope_all_svm_devices"))
    if "all_svm_devices" in made.scopes:
        build(made, text)
        pytest.skip("the device has fine-grained shared virtual memory with atomics")
    refuse(made, text, ["all_svm_devices"])


@pytest.mark.parametrize("statement", [LOAD.format("relaxed"), PLAIN.format("add")])
def test_a_type_that_has_no_atomics_is_refused(made, statement):
    with pytest.raises(portbar.BuildError) as caught:
        build(made, source(statement, "uint2"))
    assert re.search("uint2|no matching function|ambiguous", caught.value.log), caught.value.log
