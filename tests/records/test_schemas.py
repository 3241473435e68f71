"""Both packages that check records find the same, so that processors without a wheel of the faster one lose nothing."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest

from portbar import records
from portbar.device.schema import record_schema
from portbar.records import mending, schemas, validation
from tests.checkout import ROOT

RECORDS = sorted((ROOT / "vendor_matrix").glob("*.json"))
#: Where these are broken, portbar mends its own records.
MENDABLE = {"maxLength", "maxItems", "minLength"}


def changed(value: Any, turn: int) -> Any:
    """A value with some of its texts, numbers and lists changed; which ones follows from `turn`."""
    if isinstance(value, dict):
        return {key: changed(item, turn + i * 7) for i, (key, item) in enumerate(value.items())}
    if isinstance(value, list):
        many = 2100 if turn % 3 == 0 and all(isinstance(item, str) for item in value) else 1
        return [changed(item, turn + i) for i, item in enumerate(value)] * many
    if turn % 13:
        return value
    if isinstance(value, bool) or value is None:
        return 1
    return {str: "é/~" * 3_000 * (turn % 2), int: 4.0, float: "4"}[type(value)]


@pytest.fixture(params=range(12))
def broken(request: pytest.FixtureRequest) -> dict[str, Any]:
    path = RECORDS[request.param % len(RECORDS)]
    value: dict[str, Any] = changed(records.load(path), request.param + 1)
    return value


def found(validator: schemas.Validator, value: object) -> set[tuple[str, str]]:
    errors = (
        (error["instanceLocation"], error["schemaLocation"].partition("#")[2]) for error in validator.errors(value)
    )
    return {(place, rule) for place, rule in errors if rule.rpartition("/")[2] in MENDABLE}


def both() -> tuple[schemas.CompiledSchema, schemas.InterpretedSchema]:
    text = validation._text(validation._SCHEMA_FILE)
    return schemas.CompiledSchema(text), schemas.InterpretedSchema(text)


def test_the_schema_is_that_of_the_classes() -> None:
    wrong = "run `python -m portbar.device.schema >portbar/records/schema/2/record.schema.json`"
    assert validation._text(validation._SCHEMA_FILE) == records.text(record_schema()), wrong


@pytest.mark.timeout(600)
def test_both_packages_find_the_same_places(broken: dict[str, Any]) -> None:
    compiled, interpreted = both()
    assert not compiled.is_valid(broken)
    assert not interpreted.is_valid(broken)
    assert interpreted.errors(broken)
    assert found(compiled, broken) == found(interpreted, broken)


def test_some_places_were_compared() -> None:
    rules = {
        rule.rpartition("/")[2] for path in RECORDS[:6] for _, rule in found(both()[0], changed(records.load(path), 1))
    }
    assert {"maxLength", "minLength"} <= rules


@pytest.fixture
def without_the_faster_one(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    validation.validator.cache_clear()
    yield
    validation.validator.cache_clear()


@pytest.mark.usefixtures("without_the_faster_one")
def test_records_are_checked_and_mended_without_a_wheel_of_the_faster_package() -> None:
    value = records.load(RECORDS[0])
    assert records.validate(value) == []
    too_long = copy.deepcopy(value)
    too_long["environment"] = {
        "system": "Linux " * 1000,
        **{k: v for k, v in too_long.get("environment", {}).items() if k != "system"},
    }
    assert any(problem.startswith("/environment/system: ") for problem in records.validate(too_long))
    assert records.validate(mending.mended(too_long)) == []
    assert records.validate({**value, "format": 2.0})
