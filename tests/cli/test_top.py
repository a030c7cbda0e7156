"""top: the status on a terminal, repainted until q."""

import json
import os
import pty
import select
import socket
import subprocess
import sys
import termios
import threading
import time

import pytest

from agent.cli.terminal import Terminal
from agent.cli.top import ORDERS, TopView, _format_bar, apply_key, format_screen
from agent.core.inventory.device import Health
from agent.core.lists.transitions import TransitionRecord
from agent.core.report.status_report import build_status_report
from tests.cli.conftest import TOP
from tests.core.builders import spec
from tests.core.test_report import A, bad, good, moment

B = "example.com/b"
SCREEN = Terminal(80, has_colours=False, has_unicode=True)


def build_report(*candidates):
    return json.loads(json.dumps(build_status_report(moment(*candidates))))


def test_a_picture_fills_the_screen_and_no_more():
    answer = build_report(*(good(f"d{n}") for n in range(50)), bad("ill"))
    for height in (5, 10, 24, 100):
        shown = format_screen(answer, TopView(A), "", SCREEN, height)
        assert len(shown) == height
        assert shown[-1].endswith("q end")
    shown = format_screen(answer, TopView(A), "", SCREEN, 24)
    assert any(line.startswith(f"> {A}") for line in shown)
    devices = [line.split()[0] for line in shown if line.startswith(("ill", "d"))]
    assert devices[0] == "ill"
    assert f"! {A} ill Unhealthy" in "\n".join(shown[:5])


def test_an_agent_that_went_away_is_said():
    shown = format_screen(build_report(good("a")), TopView(A), "no agent is running: nobody", SCREEN, 24)
    assert shown[0] == "old data: no agent is running: nobody"


def test_what_hardware_says_does_not_reach_the_terminal():
    answer = build_report(bad("a"))
    for devices in (["\x1b]0;x\a"], ["\x1b]0;x\a"] * 2):
        answer["attention"][0]["devices"] = devices
        assert "\x1b" not in "".join(format_screen(answer, TopView(A), "", SCREEN, 24))


def test_nothing_served_is_a_picture_too():
    assert format_screen({**build_report(good("a")), "resources": []}, TopView(), "", SCREEN, 24)


def two():
    """Two resources, one of which has a device that is not Healthy, and what changed."""
    specs = (spec(A), spec(B))
    changes = {(A, "x"): (TransitionRecord(900.0, Health.HEALTHY, Health.UNHEALTHY, "heat\x1b[2J"),)}
    made = moment(bad("x"), good("y", resource=B), specs=specs, changes=changes)
    return json.loads(json.dumps(build_status_report(made)))


def press(view, *keys):
    for key in keys:
        view = apply_key(view, key, two())
    return view


def names(view):
    return [
        line.split()[1 if line[0] == ">" else 0] for line in format_screen(two(), view, "", SCREEN, 40) if "/1 " in line
    ]


def test_keys_choose_sort_and_filter():
    assert press(TopView(A), b"\x1b[B").chosen_resource == B
    assert press(TopView(A), b"j", b"j", b"k").chosen_resource == A
    assert press(TopView(A), b"\r").shows_devices is False
    assert [press(TopView(), *[b"s"] * times).order for times in range(4)] == [*ORDERS, ORDERS[0]]
    assert names(TopView(A)) == [A, B]
    assert names(press(TopView(A), b"u")) == [A]
    assert names(press(TopView(A), b"/", b"b", b"\r")) == [B]
    assert press(TopView(A), b"/", b"q", b"u", b"\x7f") == TopView(A, name_filter="q", is_typing=True)
    assert press(TopView(A), b"/", b"x", b"\x1b") == TopView(A)
    assert press(TopView(A), b"q") is press(TopView(A), b"/", b"\x03") is None
    assert press(TopView(A), b"z", b"\x1b[5~") == TopView(A)


def test_a_filter_that_nothing_is_like_says_so():
    assert any(
        "no resource matches" in line for line in format_screen(two(), TopView(name_filter="zzz"), "", SCREEN, 24)
    )
    assert format_screen(two(), TopView(A, name_filter="zz", is_typing=True), "", SCREEN, 24)[-1] == "/zz"


def test_what_changed_last_is_there_if_there_is_room():
    shown = format_screen(two(), TopView(A), "", SCREEN, 24)
    at = next(index for index, line in enumerate(shown) if line.startswith("── last changes ──"))
    assert shown[at + 1].endswith(f"{A} x Healthy → Unhealthy: heat\\x1b[2J")
    assert not any("last changes" in line for line in format_screen(two(), TopView(A), "", SCREEN, 20))
    assert all(len(line) <= 80 for line in shown)


def test_help_says_what_keys_do():
    shown = "\n".join(format_screen(two(), press(TopView(A), b"?"), "", SCREEN, 24))
    assert "sort by name, in use, unhealthy" in shown


@pytest.mark.parametrize(
    ("part", "whole", "bar"), [(0, 8, 0), (1, 100, 1), (4, 8, 5), (99, 100, 9), (8, 8, 10), (0, 0, 0)]
)
def test_a_bar_is_full_or_empty_only_if_it_is(part, whole, bar):
    assert _format_bar(part, whole) == "█" * bar + "░" * (10 - bar)


def test_without_unicode_it_is_ascii():
    plain = Terminal(80, has_unicode=False)
    assert all(line.isascii() for line in format_screen(two(), TopView(A), "", plain, 24))


def test_it_needs_a_terminal(cli):
    code, out, err = cli("top")
    assert (code, out) == (2, "")
    assert "device-agent status" in err


@pytest.fixture
def agent(tmp_path, config):
    """Somebody who answers as an agent would; the configuration that leads there."""
    path = tmp_path / "c.sock"
    (config() / "agent.toml").write_text(f'[paths]\ncontrol = "{path}"\n')
    answer = json.dumps(build_report(good("a"), bad("b"))).encode() + b"\n"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve():
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    client.recv(65536)
                    client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield str(config())
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_it_paints_until_q_and_leaves_the_terminal_as_it_was(agent):
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    child = subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", "top", "--config", agent],
        stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP), "LC_ALL": "C.UTF-8", "TERM": "xterm"},
    )  # fmt: skip
    seen = b""

    def until(words):
        nonlocal seen
        end = time.monotonic() + 60
        while words not in seen:
            assert time.monotonic() < end, seen
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 65536)

    until(b"q end")
    assert f"> {A}".encode() in seen
    seen = b""
    until(b"q end")  # another picture comes by itself
    os.write(ours, b"q")
    until(b"\x1b[?1049l")
    assert child.wait(60) == 0
    assert child.stderr.read() == b""
    child.stderr.close()
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
