"""A damaged record is refused or whole, another implementation of its schema agrees, and what is written is read again."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portbar import records
from portbar.errors import RecordError
from portbar.records import bounds, schemas, validation
from portbar.survey.report.index import index_of
from tests.fuzz import target
from tests.records_support import damaged, record, stopped_record

BASES = (record(), stopped_record())


@settings(target, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(BASES).flatmap(damaged))
def test_a_damaged_record_is_refused_or_whole(tmp_path, value):
    path = tmp_path / "damaged.json"
    path.write_bytes(json.dumps(value).encode("utf-8", "surrogatepass"))
    try:
        loaded = records.load(path)
    except RecordError as error:
        refusal = str(error)
        assert refusal.startswith("damaged.json: ") and refusal.isprintable()  # noqa: PT018 (as good an end)
        return
    assert loaded["format"] == records.FORMAT
    assert records.validate(loaded) == []
    assert json.loads(records.text(loaded)) == loaded
    assert index_of([("damaged.json", loaded)]).partition("bound). ")[0].count("\n| [") == len(loaded["devices"])
    for name, one in records.split(loaded):
        assert (tmp_path / name).parent == tmp_path
        assert records.validate(one) == []


@settings(target, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([records.text(base).encode() for base in BASES]),
    st.integers(0, 10_000),
    st.integers(0, 40),
    st.binary(max_size=12)
    | st.sampled_from([b"[[[[", b'"', b"\\u0000", b"1e999", b"-", b"NaN", b"null", b"{}", b"\xed\xa0\x80"]),
)
def test_damaged_bytes_are_refused_or_a_record(tmp_path, text, at, length, instead):
    at %= len(text)
    path = tmp_path / "damaged.json"
    path.write_bytes(text[:at] + instead + text[at + length :])
    try:
        assert records.validate(records.load(path)) == []
    except RecordError as error:
        assert str(error).isprintable()  # noqa: PT017


# Half as many: the other implementation takes longer than all the rest.
@settings(max_examples=target.max_examples // 2)
@given(st.sampled_from(BASES).flatmap(damaged))
def test_another_implementation_of_json_schema_agrees(value):
    pytest.importorskip("jsonschema")
    if not isinstance(value, dict) or bounds.examined(value).faults:
        return
    errors = schemas.InterpretedSchema(json.dumps(records.schema())).errors(value)
    assert bool(validation.schema_errors(value)) == bool(errors), errors
