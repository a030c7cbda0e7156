"""scan and explain with --watch print the result again after each change, in each format."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from agent.cli.host_report import report_command
from agent.cli.host_report.report_command import WatchOutput
from agent.config.load import load
from tests.cli.conftest import TOP

VIDEO = '[[resource]]\nname = "a.example/camera"\nsource = { node = "/dev/video*" }\n'


@contextmanager
def run_watch_mode(*arguments):
    """Yield the running program, to read its lines one by one."""
    words = [sys.executable, "-m", "agent.cli.main", *map(str, arguments), "--watch"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=TOP) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def host(tree):
    tree.node("/dev/video0", "c 81:0")
    tree.node("/dev/null", "c 1:3")
    return tree


def test_scan_says_what_came_changed_and_went(host, config):
    with run_watch_mode("--root", host.top, "--config", config(VIDEO), "scan", "-o", "jsonl") as process:
        first = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert {one["name"] for one in first} == {"/dev/video0", "/dev/null"}
        host.node("/dev/video1", "c 81:1")
        came = json.loads(process.stdout.readline())
        assert (came["name"], came["taken_by"]) == ("/dev/video1", "a.example/camera")
        config(VIDEO.replace("camera", "webcam"))  # the configuration is looked at as well
        changed = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert {(one["name"], one["taken_by"]) for one in changed} == {
            ("/dev/video0", "a.example/webcam"),
            ("/dev/video1", "a.example/webcam"),
        }
        host.at("/dev/video0").unlink()
        went = json.loads(process.stdout.readline())
        assert (went["name"], went["gone"]) == ("/dev/video0", True)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def test_explain_says_it_again_when_it_is_another(host, config):
    with run_watch_mode("--root", host.top, "--config", config(VIDEO), "explain", "a.example/camera") as process:
        said = [process.stdout.readline() for _ in range(5)]
        assert said[-1] == "  devices      1 listed, 1 Healthy\n"
        host.node("/dev/video1", "c 81:1")
        again = [process.stdout.readline() for _ in range(6)]
        assert (again[0], again[-1]) == ("\n", "  devices      2 listed, 2 Healthy\n")


async def test_in_a_storm_half_of_the_time_is_idle(host, config, monkeypatch):
    """Whatever an answer costs here, and though something has happened while it was made."""
    clock, slept = iter([0.0, 7.0]), []

    async def asleep(seconds):
        slept.append(seconds)
        raise InterruptedError

    def answer():
        host.node("/dev/video1", "c 81:1")

    monkeypatch.setattr(report_command.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(report_command.asyncio, "sleep", asleep)
    with pytest.raises(InterruptedError):
        await report_command._watch(host.root, lambda: load(config(VIDEO)), answer, WatchOutput(by_line=False))
    assert slept == [7.0]


def test_that_time_went_by_is_nothing_new(capsys):
    said = WatchOutput(by_line=False)
    for age in ("2 s", "5 min", "3 h 2 min"):
        said.print_changes(f"Healthy since 11:02:17 ({age})\n")
    said.print_changes("Unhealthy since 11:10:17 (1 s): gone\n")
    assert capsys.readouterr().out == "Healthy since 11:02:17 (2 s)\n\nUnhealthy since 11:10:17 (1 s): gone\n"


def test_the_forms_of_an_answer(host, config, cli):
    at = ("--root", host.top, "--config", config(VIDEO))
    assert cli(*at, "scan", "-o", "name")[1] == "/dev/video0\n"
    assert cli(*at, "scan", "-o", "name", "--all")[1].split() == ["/dev/video0", "/dev/null"]
    assert cli(*at, "scan", "-o", "name", "null")[1] == "/dev/null\n"
    assert "node\n" in cli(*at, "scan", "-o", "name", "--words", "net")[1]
    lines = cli(*at, "scan", "-o", "jsonl")[1].splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["/dev/video0", "/dev/null"]
    assert json.loads(cli(*at, "scan", "-o", "jsonl", "video0")[1])["taken_by"] == "a.example/camera"
    assert cli(*at, "explain", "-o", "name")[1] == ""
    assert cli(*at, "explain", "-o", "name", "a.example/camera")[1] == "video0\n"
    assert cli(*at, "explain", "-o", "name", "/dev/null")[1] == "/dev/null\n"
    (line,) = cli(*at, "explain", "-o", "jsonl", "a.example/camera")[1].splitlines()
    assert json.loads(line)["resource"] == "a.example/camera"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/dev", "/dev: no device: is a directory with 3 device nodes in it\n"),
        ("/dev/snd", "/dev/snd: no device: is a directory without a device node in it\n"),
        ("/dev/dri", "/dev/dri: no device: is a directory with 1 device node in it\n  next         device-agent scan"),
        ("/sys/class/net", '/sys/class/net: no device: a class of the kernel: source = "net"\n'),
        ("/sys/class/x", '/sys/class/x: no device: a class of the kernel: source = { subsystem = "x" }\n'),
        ("/sys/bus/pci", '/sys/bus/pci: no device: a bus of the kernel: source = "pci"\n'),
        ("/sys/bus/pci/devices/0000:3b:00.0/vendor", 'belongs to 0000:3b:00.0; its entries write "./vendor"\n'),
        ("/proc/cpuinfo", 'is a file of no device; a clause can read it as "/proc/cpuinfo"\n'),
        ("/etc/hosts", "/etc/hosts: no device: no source reads this path: devices are below /dev, /sys and /proc\n"),
    ],
)
def test_a_path_that_exists_is_explained_if_no_source_looks_there(host, config, cli, path, said):
    host.node("/dev/dri/card0", "c 226:0")
    host.at("/dev/snd").mkdir()
    host.pci("0000:3b:00.0")
    host.at("/sys/class/net").mkdir(parents=True)
    host.at("/sys/class/x").mkdir(parents=True)
    host.file("/proc/cpuinfo", "x\n")
    host.file("/etc/hosts", "x\n")
    code, out, _ = cli("--root", host.top, "--config", config(VIDEO), "explain", path)
    assert code == 0
    assert said in out


def test_a_path_that_is_no_device_is_explained_to_programs(host, config, cli):
    host.at("/dev/snd").mkdir()
    code, out, _ = cli("--root", host.top, "--config", config(VIDEO), "scan", "-o", "json", "/dev/snd")
    assert code == 0
    reason = "is a directory without a device node in it"
    assert json.loads(out) == {"path": "/dev/snd", "device": None, "reason": reason, "next": None}
