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
from agent.cli.top import picture
from agent.core.report.status import status
from tests.cli.conftest import TOP
from tests.core.test_report import A, bad, good, moment

SCREEN = Terminal(80, colour=False, unicode=True)


def said(*candidates):
    return json.loads(json.dumps(status(moment(*candidates))))


def test_a_picture_fills_the_screen_and_no_more():
    answer = said(*(good(f"d{n}") for n in range(50)), bad("ill"))
    for height in (5, 10, 24, 100):
        shown = picture(answer, 0, "", SCREEN, height)
        assert len(shown) == height
        assert shown[-1].endswith("q: end")
    shown = picture(answer, 0, "", SCREEN, 24)
    assert any(line.startswith(f"> {A}") for line in shown)
    devices = [line.split()[0] for line in shown if line.startswith(("ill", "d"))]
    assert devices[0] == "ill"
    assert "ill Unhealthy" in "\n".join(shown[:5])


def test_an_agent_that_went_away_is_said():
    shown = picture(said(good("a")), 0, "no agent is running: nobody", SCREEN, 24)
    assert shown[0] == "not of now: no agent is running: nobody"


def test_what_hardware_says_does_not_reach_the_terminal():
    answer = said(bad("a"))
    for devices in (["\x1b]0;x\a"], ["\x1b]0;x\a"] * 2):
        answer["attention"][0]["devices"] = devices
        assert "\x1b" not in "".join(picture(answer, 0, "", SCREEN, 24))


def test_nothing_served_is_a_picture_too():
    assert picture({**said(good("a")), "resources": []}, 0, "", SCREEN, 24)


def test_it_needs_a_terminal(cli):
    code, out, err = cli("top")
    assert (code, out) == (2, "")
    assert "device-agent status" in err


@pytest.fixture
def agent(tmp_path, config):
    """Somebody who answers as an agent would; the configuration that leads there."""
    path = tmp_path / "c.sock"
    (config() / "agent.toml").write_text(f'[paths]\ncontrol = "{path}"\n')
    answer = json.dumps(said(good("a"), bad("b"))).encode() + b"\n"
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

    until(b"q: end")
    assert f"> {A}".encode() in seen
    seen = b""
    until(b"q: end")  # another picture comes by itself
    os.write(ours, b"q")
    until(b"\x1b[?1049l")
    assert child.wait(60) == 0
    assert child.stderr.read() == b""
    child.stderr.close()
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
