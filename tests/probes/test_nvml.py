"""The probe for NVML, against a library that is compiled here."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.checks.probe_protocol import (
    ProbeOff,
    ReportComplete,
    ReportedField,
    ReportedHealth,
    ReportRemoval,
    parse_line,
)
from agent.core.entry.query import QueryStatus

ONE, TWO = "0000:3b:00.0", "000f:5e:00.0"
MIG = "/proc/driver/nvidia/capabilities/gpu5/mig/gi7/ci1"
TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler, and the library is compiled (Debian: gcc libc6-dev)")
    made = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, Path(__file__).with_name("nvml.c")], check=True)
    return made


class Run:
    """The probe as a process."""

    def __init__(self, top, library, *arguments):
        self.top = top
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agent.probes.nvml", "--library", str(library), *arguments],
            stdout=subprocess.PIPE,
            env={**os.environ, "FAKE_NVML": str(top)},
            cwd=TOP,
        )

    def until(self, holds):
        """What it says up to the line of which that holds."""
        said = []
        for line in self.process.stdout:
            said.append(parse_line(line))
            if holds(said[-1]):
                return said
        raise AssertionError(said)

    def round(self):
        """What it says up to the end of a round."""
        return self.until(lambda line: line == ReportComplete())

    def says(self, name, text):
        (self.top / f"{name}.new").write_text(text)
        (self.top / f"{name}.new").rename(self.top / name)


@pytest.fixture
def probe(tmp_path, library):
    runs = []

    def start(*arguments, path=library):
        runs.append(Run(tmp_path, path, *arguments))
        return runs[-1]

    yield start
    for run in runs:
        run.process.kill()
        run.process.communicate()


def well(*places):
    return [ReportedHealth(place, QueryStatus.HEALTHY) for place in places]


def verdicts(said):
    return [line for line in said if isinstance(line, ReportedHealth)]


def test_what_there_is(probe):
    said = probe().round()
    assert verdicts(said) == well(ONE, TWO, MIG)
    assert {(line.location, line.name): line.value for line in said if isinstance(line, ReportedField)} == {
        (ONE, "uuid"): "GPU-0",
        (ONE, "name"): "NVIDIA A100-SXM4-40GB",
        (ONE, "minor"): 4,
        (TWO, "uuid"): "GPU-1",
        (TWO, "name"): "NVIDIA A100-SXM4-40GB",
        (TWO, "minor"): 5,
        (TWO, "mig"): 1,
        (MIG, "uuid"): "MIG-1",
        (MIG, "profile"): "1g.5gb",
    }
    assert said.count(None) == 2  # of the GPU that is lost: a note for each time that it was looked for


@pytest.mark.parametrize(
    ("event", "place", "reason"),
    [
        (f"0 79 {2**32 - 1} {2**32 - 1}", ONE, "Xid 79"),
        (f"1 48 {2**32 - 1} {2**32 - 1}", TWO, "Xid 48"),
        ("1 94 7 1", MIG, "Xid 94"),
    ],
)
def test_an_xid_is_of_its_gpu_or_instance(probe, event, place, reason):
    run = probe("--every", "3600")
    run.round()
    run.says("event", event)
    said = verdicts(run.round())
    assert [line for line in said if line.reply is QueryStatus.UNHEALTHY] == [
        ReportedHealth(place, QueryStatus.UNHEALTHY, reason)
    ]
    assert len(said) == 3


def test_an_application_s_xid_is_no_fault_and_heals_none(probe):
    run = probe("--every", "3600")
    run.round()
    run.says("event", f"0 79 {2**32 - 1} {2**32 - 1}")
    run.round()
    run.says("event", f"0 31 {2**32 - 1} {2**32 - 1}")
    while (run.top / "event").exists():
        time.sleep(0.001)
    run.says("event", f"1 48 {2**32 - 1} {2**32 - 1}")
    said = verdicts(run.round())
    assert said == [
        ReportedHealth(ONE, QueryStatus.UNHEALTHY, "Xid 79"),
        ReportedHealth(TWO, QueryStatus.UNHEALTHY, "Xid 48"),
        *well(MIG),
    ]


def test_an_xid_is_over_after_its_time(probe):
    run = probe("--every", "0.05", "--hold", "2")
    run.round()
    run.says("event", f"0 79 {2**32 - 1} {2**32 - 1}")
    run.until(lambda line: line == ReportedHealth(ONE, QueryStatus.UNHEALTHY, "Xid 79"))
    run.until(lambda line: line == ReportedHealth(ONE, QueryStatus.HEALTHY))


@pytest.mark.parametrize(
    ("name", "value", "place", "reason"),
    [
        ("recovery", "1", ONE, "the driver asks for a reset of the GPU"),
        ("recovery", "2", ONE, "the driver asks for a reboot of the node"),
        ("recovery", "9", ONE, "the driver asks for a recovery (9)"),
        ("pending", "1", ONE, "rows wait to be remapped"),
        ("failed", "1", ONE, "rows cannot be remapped"),
        ("pages", "1", TWO, "pages wait to be retired"),
    ],
)
@pytest.mark.parametrize("how", [(), ("--no-events",)], ids=["events", "rounds"])
def test_what_is_broken(probe, name, value, place, reason, how):
    run = probe("--every", "0.02", *how)
    run.round()
    run.says(name, value)
    run.until(lambda line: line == ReportedHealth(place, QueryStatus.UNHEALTHY, reason))
    run.says(name, "0")
    run.until(lambda line: line == ReportedHealth(place, QueryStatus.HEALTHY))


NO_HANDLE = "nvmlDeviceGetHandleByIndex_v2: NVML error"


@pytest.mark.parametrize(
    ("name", "reply", "reason"),
    [("lost", QueryStatus.UNHEALTHY, f"{NO_HANDLE} 15"), ("denied", QueryStatus.UNKNOWN, f"{NO_HANDLE} 4")],
)
@pytest.mark.parametrize("how", [(), ("--no-events",)], ids=["events", "rounds"])
def test_a_gpu_that_was_there_and_is_lost_is_ill_with_its_instances(probe, name, reply, reason, how):
    run = probe("--every", "0.02", *how)
    run.round()
    run.says(name, "1")
    for _ in range(2):  # and it stays so
        run.until(lambda line: line == ReportedHealth(TWO, reply, reason))
        assert verdicts(run.round()) == [ReportedHealth(MIG, reply, reason)]
    run.says(name, "-1")
    run.until(lambda line: line == ReportedHealth(TWO, QueryStatus.HEALTHY))
    assert verdicts(run.round()) == well(MIG)


def test_a_gpu_that_says_itself_that_it_is_lost_is_ill(probe):
    run = probe("--every", "0.02")
    run.round()
    run.says("field", "15")
    run.until(lambda line: line == ReportedHealth(ONE, QueryStatus.UNHEALTHY, "the GPU is lost"))


def test_an_instance_that_is_taken_away_is_gone(probe):
    run = probe("--every", "0.02")
    run.round()
    run.says("uncut", "1")
    run.until(lambda line: line == ReportRemoval(MIG))
    assert verdicts(run.round()) == []
    assert verdicts(run.round()) == well(ONE, TWO)


def test_a_host_without_the_library_is_off(probe):
    run = probe(path="/no/such/libnvidia-ml.so.1")
    (line,) = run.until(lambda _: True)
    assert isinstance(line, ProbeOff)
    assert line.reason.startswith("/no/such/libnvidia-ml.so.1: cannot open")
    assert run.process.wait() == 0


@pytest.mark.parametrize(("code", "off"), [(9, True), (18, True), (999, False)])
def test_a_library_that_cannot_begin(probe, tmp_path, code, off):
    (tmp_path / "init").write_text(str(code))
    run = probe()
    (line,) = run.until(lambda _: True)
    assert line == (ProbeOff(f"nvmlInit_v2: NVML error {code}") if off else None)
    assert run.process.wait() == (0 if off else 1)
