"""Any bytes in a cache file: what was stored, or nothing and one warning."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portbar.choices.profile import stored_findings
from portbar.device import usable
from portbar.device.facts import DeviceFacts, device_key
from portbar.device.findings import CACHE_KIND, Findings
from portbar.records import cache
from tests.fuzz import target
from tests.records_support import damaged, device

FACTS = DeviceFacts(name="Test GPU", driver_version="1")
KEY = device_key(FACTS)
FINDINGS = Findings.from_json(device()["findings"])
VERDICT = {"usable": True, "reason": "it works", "remedy": "", "seconds": 1.5, "checked": 1e9}


def entry(kind: str, value: object) -> dict[str, object]:
    return {"header": {"portbar": cache.__version__, "kind": kind, "key": KEY}, "value": value}


def bytes_of(kind: str, value: object) -> st.SearchStrategy[bytes]:
    """A whole entry, one with other parts, other values in a whole entry, one that is cut, and anything."""
    whole = json.dumps(entry(kind, value)).encode()
    return (
        st.just(whole)
        | damaged(entry(kind, value)).map(lambda odd: json.dumps(odd).encode("utf-8", "surrogatepass"))
        | damaged(value).map(lambda odd: json.dumps(entry(kind, odd)).encode("utf-8", "surrogatepass"))
        | st.integers(0, len(whole)).map(lambda end: whole[:end])
        | st.binary(max_size=40)
        | st.tuples(st.integers(0, len(whole)), st.binary(max_size=4)).map(
            lambda change: whole[: change[0]] + change[1] + whole[change[0] + len(change[1]) :]
        )
    )


@pytest.fixture
def files(own_cache: Path) -> dict[str, Path]:
    """The file of each kind of entry."""
    for kind in (CACHE_KIND, "usable"):
        (own_cache / cache.safe_name(kind)).mkdir(parents=True)
    return {kind: own_cache / cache.safe_name(kind) / f"{cache.safe_name(KEY)}.json" for kind in (CACHE_KIND, "usable")}


@settings(target, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bytes_of(CACHE_KIND, FINDINGS.to_json()), bytes_of("usable", VERDICT))
def test_any_bytes_are_findings_or_nothing_and_a_warning(files, findings, verdict):
    files[CACHE_KIND].write_bytes(findings)
    files["usable"].write_bytes(verdict)
    cache._warned.clear()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found, known = stored_findings(FACTS), usable._recall(KEY)
    assert {warning.category for warning in told} <= {cache.CacheWarning}
    assert len(told) <= 2
    assert found is None or (isinstance(found, Findings) and Findings.from_json(found.to_json()) == found)
    assert known is None or isinstance(known.usable, bool)
    if findings == json.dumps(entry(CACHE_KIND, FINDINGS.to_json())).encode():
        assert found == FINDINGS
