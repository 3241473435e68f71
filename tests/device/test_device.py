"""Facts and addresses of devices: read from drivers that lie, and carried through JSON unchanged."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pyopencl as cl
import pytest

from portbar.device import addresses
from portbar.device import facts as device
from portbar.device.addresses import DeviceAddress
from portbar.device.facts import DeviceFacts
from portbar.errors import DeviceError, RecordError
from portbar.records.plain import plain_text

GPU = DeviceFacts(
    platform_name="NVIDIA CUDA",
    platform_version="OpenCL 3.0 CUDA 13.0",
    name="NVIDIA H200",
    driver_version="580.1",
    type=("GPU",),
    opencl_c_versions=("1.2", "3.0"),
    compute_units=132,
    max_work_item_sizes=(1024, 1024, 64),
    extensions=("cl_khr_fp64", "cl_nv_device_attribute_query"),
    atomic_memory_capabilities=("relaxed", "scope_work_group"),
    fp64=True,
    nvidia={"warp_size": 32, "kernel_exec_timeout": None},
)


class FakeOwner:
    """A device or platform whose driver replies from a table, with errors for all else."""

    def __init__(self, **answers):
        self.answers = answers

    def get_info(self, which):
        for name, answer in self.answers.items():
            kind = cl.platform_info if isinstance(self, FakePlatform) else cl.device_info
            if getattr(kind, name) == which:
                if isinstance(answer, Exception):
                    raise answer
                return answer
        raise cl.LogicError("clGetDeviceInfo failed: INVALID_VALUE")


class FakePlatform(FakeOwner):
    def __init__(self, **answers):
        super().__init__(**answers)
        self.devices = []

    def get_devices(self):
        if isinstance(self.devices, Exception):
            raise self.devices
        return self.devices


def version(text):
    major, minor = map(int, text.split("."))
    return SimpleNamespace(name="OpenCL C", version=major << 22 | minor << 12 | 7)


@pytest.fixture(autouse=True)
def accept_fakes(monkeypatch):
    monkeypatch.setattr(cl, "Platform", (cl.Platform, FakePlatform))


@pytest.fixture
def machine(monkeypatch):
    """Two platforms of one name, as with two PoCLs, one without devices, and one whose driver raises."""
    platforms = []
    for name, release, devices in [
        ("Portable", "PoCL 3.1", ["pthread EPYC"]),
        ("Clover", "Mesa", []),
        ("Portable", "PoCL 6.0", ["cpu EPYC", "cpu EPYC"]),
        ("Broken", "1", None),
    ]:
        platform = FakePlatform(NAME=name, VERSION=release)
        platform.devices = (
            cl.RuntimeError("DEVICE_NOT_FOUND")
            if devices is None
            else [FakeOwner(NAME=text, PLATFORM=platform) for text in devices]
        )
        platforms.append(platform)
    monkeypatch.setattr(addresses.icd, "load_platforms", lambda: list(platforms))
    return platforms


def test_facts_survive_json():
    assert DeviceFacts.from_json(json.loads(json.dumps(GPU.to_json()))) == GPU
    assert DeviceFacts.from_json(json.loads(json.dumps(DeviceFacts().to_json()))) == DeviceFacts()
    assert DeviceFacts.from_json({"name": "x", "colour": "red"}) == DeviceFacts(name="x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": None},
        {"compute_units": "8"},
        {"compute_units": True},
        {"fp64": 1},
        {"extensions": "cl_khr_fp64"},
        {"extensions": None},
        {"max_work_item_sizes": ["1"]},
        {"nvidia": {"warp_size": "32"}},
    ],
)
def test_facts_of_a_wrong_type_are_refused_by_name(wrong):
    with pytest.raises(RecordError, match=next(iter(wrong))):
        DeviceFacts.from_json(wrong)


def test_a_wrong_answer_costs_that_fact_only():
    assert device.facts(FakeOwner()) == DeviceFacts()
    answers = {
        "NAME": "  Some\0  GPU ",
        "MAX_COMPUTE_UNITS": "many",
        "LOCAL_MEM_SIZE": 65536,
        "VENDOR": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        "MAX_WORK_ITEM_SIZES": 3,
        "ATOMIC_MEMORY_CAPABILITIES": 0,
        "OPENCL_C_FEATURES": [SimpleNamespace(name="b"), SimpleNamespace(name="a"), object()],
    }
    assert device.facts(FakeOwner(**answers)) == DeviceFacts(name="Some GPU", local_mem_size=65536, features=("a", "b"))


def test_versions_come_from_the_list_and_before_opencl_3_from_the_text():
    both = FakeOwner(
        OPENCL_C_ALL_VERSIONS=[version("3.0"), version("1.2"), version("1.0")], OPENCL_C_VERSION="OpenCL C 1.2 PoCL"
    )
    assert device.facts(both).opencl_c_versions == ("1.0", "1.2", "3.0")
    assert device.facts(FakeOwner(OPENCL_C_VERSION="OpenCL C 2.0 ")).opencl_c_versions == ("2.0",)
    assert device.facts(FakeOwner(OPENCL_C_VERSION="nonsense")).opencl_c_versions == ()


def test_types_and_atomic_capabilities_are_named_as_claimed():
    claimed = device.facts(FakeOwner(TYPE=15, ATOMIC_MEMORY_CAPABILITIES=0x11, ATOMIC_FENCE_CAPABILITIES=0b1101010))
    assert claimed.type == ("CPU", "GPU", "ACCELERATOR")
    assert claimed.atomic_memory_capabilities == ("relaxed", "scope_work_group")
    assert claimed.atomic_fence_capabilities == ("acq_rel", "scope_work_item", "scope_device", "scope_all_devices")


def test_some_facts_take_their_extensions():
    base = "cl_khr_int64_base_atomics"
    assert device.facts(FakeOwner(EXTENSIONS=base)).int64_atomics is False
    assert device.facts(FakeOwner(EXTENSIONS=f"{base} cl_khr_int64_extended_atomics")).int64_atomics is True
    answers = {"WARP_SIZE_NV": 32, "MAX_COMPUTE_UNITS": 132}
    assert device.facts(FakeOwner(**answers)).nvidia is None
    listed = device.facts(FakeOwner(EXTENSIONS="cl_nv_device_attribute_query", **answers)).nvidia
    assert listed is not None
    assert (listed["warp_size"], listed["multiprocessors"], listed["registers_per_block"]) == (32, 132, None)


def test_keys_are_stable_and_change_with_the_driver_but_not_with_extensions():
    key = device.device_key(GPU)
    assert key.startswith("nvidia-h200-")
    assert device.device_key(dataclasses.replace(GPU, extensions=())) == key
    for change in ({"driver_version": "581"}, {"platform_version": "2"}, {"platform_name": "x"}, {"compute_units": 1}):
        assert device.device_key(dataclasses.replace(GPU, **change)) != key
    assert device.device_key(DeviceFacts(name="/../")).startswith("device-")


def test_hosts_of_another_processor_that_share_a_cache_share_no_findings(monkeypatch):
    keys = set()
    for machine in ("x86_64", "aarch64", "arm64", "AMD64", ""):
        monkeypatch.setattr(device.this_machine, "machine", lambda named=machine: named)
        keys.add(device.device_key(GPU))
    assert len(keys) == 3


def test_devices_are_listed_with_their_places_and_broken_platforms_have_none(machine):
    places = [(address.platform_index, address.device_index) for address, _ in addresses.list_devices()]
    assert places == [(0, 0), (2, 0), (2, 1)]


def test_an_address_leads_back_to_its_device_through_json(machine):
    for address, found in addresses.list_devices():
        assert DeviceAddress.from_json(json.loads(json.dumps(address.to_json()))).resolve() is found
        assert addresses.address_of(found) == address


def test_an_address_follows_a_platform_that_moved_if_only_one_has_its_names(machine):
    (first, single), (second, _), _ = addresses.list_devices()
    machine.insert(0, machine.pop())
    assert first.resolve() is single
    with pytest.raises(DeviceError, match="several"):
        second.resolve()


def test_an_address_whose_device_changed_is_refused_with_what_there_is(machine):
    address = dataclasses.replace(addresses.list_devices()[0][0], device_name="another")
    with pytest.raises(DeviceError, match="no longer exists") as caught:
        address.resolve()
    assert "0:0 pthread EPYC (Portable PoCL 3.1)" in str(caught.value)
    with pytest.raises(DeviceError, match="sub-device"):
        addresses.address_of(FakeOwner(NAME="part of EPYC"))


@pytest.mark.parametrize(
    ("patterns", "places"),
    [
        ([], ["0:0", "2:0", "2:1"]),
        (["2:1"], ["2:1"]),
        (["EPYC"], ["0:0", "2:0", "2:1"]),
        (["portable pocl 6"], ["2:0", "2:1"]),
        (["PTHREAD"], ["0:0"]),
        (["2:1", "cpu", "portable"], ["2:1", "2:0", "0:0"]),
    ],
)
def test_a_user_selects_by_place_or_by_part_of_a_name(machine, patterns, places):
    chosen = addresses.select_devices(patterns)
    assert [f"{address.platform_index}:{address.device_index}" for address, _ in chosen] == places


#: Platforms of one machine, each with its devices; runtimes for processors name the processor's vendor, too.
MIXED = [
    (("NVIDIA CUDA", "OpenCL 3.0 CUDA 13.0"), ["NVIDIA H100 80GB HBM3"]),
    (("Intel(R) OpenCL", "OpenCL 3.1 LINUX"), ["Intel(R) Xeon(R) Processor"]),
    (("Portable Computing Language", "OpenCL 3.0 PoCL 3.1"), ["pthread-Intel(R) Xeon(R) Processor"]),
    (("rusticl", "OpenCL 3.0"), ["llvmpipe (LLVM 15.0.6, 256 bits)"]),
]


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        ("intel", ["1:0"]),
        ("pocl", ["2:0"]),
        ("portable", ["2:0"]),
        ("nvidia", ["0:0"]),
        ("h100", ["0:0"]),
        ("xeon", ["1:0", "2:0"]),
        ("pthread", ["2:0"]),
        ("llvmpipe", ["3:0"]),
    ],
)
def test_a_name_that_a_platform_has_selects_no_device_of_others(pattern, places):
    known = [
        (DeviceAddress(number, index, name, device_name, version), None)
        for number, ((name, version), names) in enumerate(MIXED)
        for index, device_name in enumerate(names)
    ]
    chosen = addresses.select(known, [pattern])
    assert [f"{address.platform_index}:{address.device_index}" for address, _ in chosen] == places
    # Where that platform is missing, the name is looked for among the devices.
    without = [entry for entry in known if not entry[0].platform_name.startswith("Intel")]
    assert [address.platform_index for address, _ in addresses.select(without, ["intel"])] == [2]


@pytest.mark.parametrize("pattern", ["1:0", "2:10", "nvidia", ""])
def test_a_selection_that_matches_nothing_lists_what_there_is(machine, pattern):
    with pytest.raises(DeviceError, match="2:1 cpu EPYC"):
        addresses.select_devices(["epyc", pattern])
    with pytest.raises(TypeError):
        addresses.select_devices(pattern)


@pytest.mark.device
def test_real_devices_report_what_every_device_must():
    known = addresses.list_devices()
    for address, found in known:
        reported = device.facts(found)
        assert reported.name == address.device_name
        assert reported.type
        assert reported.opencl_c_versions
        assert reported.compute_units
        assert reported.max_work_group_size
        assert DeviceFacts.from_json(json.loads(json.dumps(reported.to_json()))) == reported
        assert address.resolve() == found


def test_a_drivers_words_become_one_line_that_can_be_printed():
    assert plain_text("a\x1b[31m\tb\n\u202ec  ") == "a [31m b c"
    assert plain_text("x" * 600) == "x" * 497 + "..."
    assert plain_text("Ger\u00e4t 5") == "Ger\u00e4t 5"
    assert plain_text(None) == ""
