"""The findings cache: its promises in normal operation, and with a faulty disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from portbar import __version__
from portbar.records import cache
from tests.checkout import environment


@pytest.fixture(autouse=True)
def folder(own_cache):
    return own_cache


def only_file(folder):
    (path,) = folder.rglob("*.json")
    return path


def test_a_stored_value_is_loaded_again_from_the_disk_alone(folder, monkeypatch):
    cache.store("usable", "cpu-1", {"usable": True, "list": [1, 2.5, None]})
    monkeypatch.setattr(cache, "_memory", {})
    assert cache.load("usable", "cpu-1") == {"usable": True, "list": [1, 2.5, None]}
    assert json.loads(only_file(folder).read_text())["header"] == {
        "portbar": __version__,
        "kind": "usable",
        "key": "cpu-1",
    }


def test_nothing_is_known_before_it_is_stored_and_looking_makes_no_folder(folder):
    assert cache.load("usable", "cpu-1") is None
    assert not folder.exists()


def test_kinds_and_keys_do_not_mix_even_when_their_file_names_would(folder):
    values = {("a", "x/y"): 1, ("a", "x-y"): 2, ("b", "x/y"): 3, ("a", "../x"): 4, ("a", ""): 5}
    for (kind, key), number in values.items():
        cache.store(kind, key, {"n": number})
    assert {pair: cache.load(*pair) for pair in values} == {pair: {"n": n} for pair, n in values.items()}
    assert all(path.is_relative_to(folder) for path in folder.parent.rglob("*.json"))


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[1]", b"null", b'{"header": {}, "value": {}}', b"\xff\xfe\x00", b"[" * 100_000]
)
def test_a_damaged_file_warns_once_with_its_path_and_is_replaced(folder, damage):
    cache.store("findings", "gpu", {"n": 1})
    path = only_file(folder)
    path.write_bytes(damage)
    with pytest.warns(cache.CacheWarning, match="gpu.json") as caught:
        assert cache.load("findings", "gpu") is None
        assert cache.load("findings", "gpu") is None
    assert len(caught) == 1
    cache.store("findings", "gpu", {"n": 2})
    assert cache.load("findings", "gpu") == {"n": 2}


def test_a_file_that_is_cut_at_any_byte_counts_as_absent(folder, monkeypatch):
    cache.store("findings", "gpu", {"n": 1, "name": "\u00e9", "list": [True, None, 2.5]})
    path = only_file(folder)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        monkeypatch.setattr(cache, "_warned", set())
        with pytest.warns(cache.CacheWarning, match="gpu.json"):
            assert cache.load("findings", "gpu") is None
    cache.store("findings", "gpu", {"n": 2})
    assert cache.load("findings", "gpu") == {"n": 2}


def opened(winerror, seconds):
    """The renaming of a file that another process has open, as Windows refuses it, for some seconds."""
    rename, until = Path.replace, time.monotonic() + seconds

    def replace(self, target):
        if time.monotonic() < until:
            error = PermissionError(13, "Access is denied")
            error.winerror = winerror
            raise error
        return rename(self, target)

    return replace


@pytest.mark.parametrize("winerror", [5, 32])
def test_an_entry_that_a_reader_has_open_is_replaced_once_it_is_closed(folder, monkeypatch, winerror):
    cache.store("findings", "gpu", {"n": 1})
    monkeypatch.setattr(Path, "replace", opened(winerror, 0.05))
    cache.store("findings", "gpu", {"n": 2})
    assert cache.load("findings", "gpu") == {"n": 2}
    assert json.loads(only_file(folder).read_text())["value"] == {"n": 2}


def test_an_entry_that_stays_open_keeps_the_old_one_with_a_word(folder, monkeypatch):
    cache.store("findings", "gpu", {"n": 1})
    monkeypatch.setattr(Path, "replace", opened(32, 60.0))
    monkeypatch.setattr(cache.writing, "_OPEN_S", 0.05)
    with pytest.warns(cache.CacheWarning, match="Access is denied"):
        cache.store("findings", "gpu", {"n": 2})
    assert cache.load("findings", "gpu") == {"n": 2}
    assert json.loads(only_file(folder).read_text())["value"] == {"n": 1}


def test_a_folder_without_permission_is_not_waited_for(folder, monkeypatch):
    monkeypatch.setattr(Path, "replace", opened(None, 60.0))
    monkeypatch.setattr(cache.writing, "_OPEN_S", 60.0)
    began = time.monotonic()
    with pytest.warns(cache.CacheWarning):
        cache.store("findings", "gpu", {"n": 2})
    assert time.monotonic() - began < 30


STORES = """
from portbar.records import cache
print(flush=True)
n = 0
while True:
    n += 1
    cache.store("findings", "gpu", {"n": n, "list": [n] * 2000})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process")
def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_entry(folder):
    env = environment(PORTBAR_CACHE_DIR=str(folder))
    for n in range(4):
        with subprocess.Popen([sys.executable, "-c", STORES], env=env, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(0.05 + 0.007 * n)
            process.kill()
        found = cache.load("findings", "gpu")
        assert found["list"] == [found["n"]] * 2000
        cache.store("findings", "gpu", {"n": 0, "list": [0] * 2000})


def test_a_file_about_another_device_is_foreign(folder):
    cache.store("findings", "gpu", {"n": 1})
    only_file(folder).rename(folder / "findings" / "cpu.json")
    with pytest.warns(cache.CacheWarning, match="its key differs"):
        assert cache.load("findings", "cpu") is None


def test_an_entry_of_another_version_is_absent_without_a_warning(folder):
    cache.store("findings", "gpu", {"n": 1})
    path = only_file(folder)
    path.write_text(path.read_text().replace(json.dumps(__version__), '"0.0.1"'))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.load("findings", "gpu") is None


def test_off_keeps_findings_in_this_process_only_and_says_nothing(folder, monkeypatch):
    monkeypatch.setenv("PORTBAR_CACHE_DIR", "off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store("findings", "gpu", {"n": 1})
        assert cache.load("findings", "gpu") == {"n": 1}
    assert cache.cache_dir() is None
    assert not folder.exists()


def test_without_a_home_folder_findings_last_as_long_as_the_process(folder, monkeypatch):
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, "~no-such-user-here/portbar")
    with pytest.warns(cache.CacheWarning, match="no folder for its cache .*home directory.*set PORTBAR_CACHE_DIR"):
        cache.store("usable", "cpu-1", {"n": 1})
    assert cache.load("usable", "cpu-1") == {"n": 1}
    assert cache.cache_dir() is None


def test_a_disk_that_refuses_costs_one_warning_and_no_finding(folder):
    folder.write_text("a file where the folder should be")
    with pytest.warns(cache.CacheWarning, match="PORTBAR_CACHE_DIR") as caught:
        cache.store("findings", "gpu", {"n": 1})
        cache.store("findings", "cpu", {"n": 2})
    assert len(caught) == 1
    assert (cache.load("findings", "gpu"), cache.load("findings", "cpu")) == ({"n": 1}, {"n": 2})


def test_a_failed_write_leaves_the_old_entry_and_no_scraps(folder, monkeypatch):
    cache.store("findings", "gpu", {"n": 1})
    with pytest.raises(ValueError, match="JSON"):
        cache.store("findings", "gpu", {"n": float("nan")})
    assert cache.load("findings", "gpu") == {"n": 1}
    assert [path.name for path in (folder / "findings").iterdir()] == ["gpu.json"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "pipe by a link", "folder", "device", "huge"])
def test_other_files_than_findings_neither_hang_nor_count(folder, kind):
    cache.store("findings", "gpu", {"n": 1})
    path = only_file(folder)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "pipe by a link":
        os.mkfifo(folder / "pipe")
        path.symlink_to(folder / "pipe")
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as stream:
            stream.truncate(1 << 40)
    with pytest.warns(cache.CacheWarning, match="gpu.json"):
        assert cache.load("findings", "gpu") is None
    if kind != "folder":
        cache.store("findings", "gpu", {"n": 2})
        assert cache.load("findings", "gpu") == {"n": 2}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system has no owners of files")
def test_a_file_that_others_may_have_written_is_not_believed(folder, monkeypatch):
    cache.store("findings", "gpu", {"n": 1})
    path = only_file(folder)
    path.chmod(0o646)
    with pytest.warns(cache.CacheWarning, match="every user may write"):
        assert cache.load("findings", "gpu") is None
    path.chmod(0o664)
    assert cache.load("findings", "gpu") == {"n": 1}
    # Only the superuser may give a file away.
    about = path.stat()
    owned = os.stat_result((about.st_mode, 1, 1, 1, about.st_uid + 1, *about[5:]))
    assert "another user" in cache._distrust(owned)
    monkeypatch.setattr(os, "geteuid", lambda: about.st_uid + 1)
    assert not cache._distrust(owned)
    assert not cache._distrust(os.stat_result((about.st_mode, 1, 1, 1, 0, *about[5:])))
