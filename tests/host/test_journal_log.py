"""Log lines to the journal: the content of its socket, and the fallback if it does not accept them."""

import io
import logging
import os
import re
import shutil
import socket
import subprocess
from contextlib import suppress

import pytest

from agent.core.message_id import NOTICE, MessageId, build_log_extra
from agent.host.journal_log import JournalHandler, PriorityFormatter, is_journal
from tests.cli.conftest import TOP

CATALOG = (TOP / "config/device-agent.catalog").read_text()


@pytest.fixture
def log(tmp_path):
    """A logger that writes to a journal of the test's, and otherwise to a text; (logger, journal, text)."""
    text = io.StringIO()
    otherwise = logging.StreamHandler(text)
    otherwise.setFormatter(PriorityFormatter())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as journal:
        journal.bind(str(tmp_path / "socket"))
        handler = JournalHandler(otherwise, str(tmp_path / "socket"))
        logger = logging.getLogger("test.journal")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        yield logger, journal, text
        logger.removeHandler(handler)
        handler.close()


def read(datagram):
    """The fields, as systemd reads them."""
    found = {}
    while datagram:
        line, _, datagram = datagram.partition(b"\n")
        name, simple, value = line.partition(b"=")
        if not simple:
            size = int.from_bytes(datagram[:8], "little")
            value, datagram = datagram[8 : 8 + size], datagram[8 + size + 1 :]
        found[name.decode()] = value.decode()
    return found


def test_a_line_has_its_fields(log):
    logger, journal, text = log
    extra = build_log_extra(MessageId.UNHEALTHY, resource="a/b", device="x", address=None, to="Unhealthy")
    logger.warning("a/b %s: Healthy → Unhealthy", "x", extra=extra)
    assert read(journal.recv(65536)) == {
        "MESSAGE": "a/b x: Healthy → Unhealthy",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "device-agent",
        "MESSAGE_ID": MessageId.UNHEALTHY.value,
        "DEVICE_AGENT_RESOURCE": "a/b",
        "DEVICE_AGENT_DEVICE": "x",
        "DEVICE_AGENT_TO": "Unhealthy",
    }
    assert text.getvalue() == ""


@pytest.mark.parametrize(
    ("level", "priority"),
    [(logging.DEBUG, "7"), (logging.INFO, "6"), (NOTICE, "5"), (logging.ERROR, "3"), (logging.CRITICAL, "2")],
)
def test_priorities_are_those_of_syslog(log, level, priority):
    logger, journal, _ = log
    logger.log(level, "x")
    assert read(journal.recv(65536))["PRIORITY"] == priority


def test_what_has_several_lines_is_one_entry(log):
    logger, journal, _ = log
    try:
        raise ValueError("it\nbroke\udcff")
    except ValueError:
        logger.critical("a defect\nDEVICE_AGENT_RESOURCE=made up", exc_info=True)
    said = read(journal.recv(65536))
    assert said["MESSAGE"].startswith("a defect\nDEVICE_AGENT_RESOURCE=made up\nTraceback")
    assert said["MESSAGE"].endswith("ValueError: it\nbroke\\udcff")
    assert "DEVICE_AGENT_RESOURCE" not in said


def test_what_the_journal_does_not_take_is_written_with_its_priority(log):
    logger, journal, text = log
    logger.error("x" * 4_000_000)  # more than a datagram holds
    assert text.getvalue() == f"<3>{'x' * 4_000_000}\n"
    text.truncate(0)
    text.seek(0)
    os.unlink(journal.getsockname())
    logger.log(NOTICE, "one\ntwo")
    assert text.getvalue() == "<5>one\n<5>two\n"


def test_a_journal_that_is_busy_keeps_nobody_waiting(log):
    logger, journal, text = log
    for _ in range(10_000):  # nobody reads
        logger.info("line")
        if text.getvalue():
            break
    assert text.getvalue() == "<6>line\n"
    assert journal.recv(65536)


def test_a_journal_that_hangs_loses_lines_and_keeps_nobody_waiting(tmp_path):
    """It reads neither its socket nor the stream; a write that waited would wait here for ever."""
    ours, its = socket.socketpair()
    with (
        ours,
        its,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal,
        open(ours.fileno(), "w", closefd=False) as f,
    ):
        journal.bind(str(tmp_path / "socket"))
        otherwise = logging.StreamHandler(f)
        handler = JournalHandler(otherwise, str(tmp_path / "socket"), ours.fileno())
        for number in range(5000):
            handler.emit(logging.makeLogRecord({"msg": f"line {number} {'x' * 200}", "levelno": logging.INFO}))
        sent = []
        journal.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                sent.append(read(journal.recv(65536))["MESSAGE"])
        its.setblocking(False)
        written = its.recv(2**24).decode().splitlines()
        assert [line.split()[1] for line in (*sent, *written)] == [str(n) for n in range(len(sent) + len(written))]
        handler.emit(logging.makeLogRecord({"msg": "again", "levelno": logging.INFO}))
        assert [read(journal.recv(65536))["MESSAGE"] for _ in range(2)] == [
            f"{5000 - len(sent) - len(written)} log lines are lost",
            "again",
        ]
        handler.close()


def test_which_stream_is_the_journal(tmp_path):
    with open(tmp_path / "a", "w") as here, open(tmp_path / "b", "w") as there:
        found = os.fstat(here.fileno())
        said = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert is_journal(said, here.fileno())
        assert not is_journal(said, there.fileno())  # redirected
        assert not is_journal({}, here.fileno())
        assert not is_journal({"JOURNAL_STREAM": "x"}, here.fileno())
    assert not is_journal(said, 2**30)


def entries():
    return dict(part.split("\n", 1) for part in CATALOG.split("\n-- ")[1:])


def test_the_catalog_explains_every_kind_and_ends_in_a_step():
    known = entries()
    assert list(known) == [kind.value for kind in MessageId]
    for text in known.values():
        head, _, body = text.partition("\n\n")
        assert [line.partition(": ")[0] for line in head.splitlines()] == ["Subject", "Defined-By", "Documentation"]
        step = body.rstrip().splitlines()[-1]
        assert step.startswith(("    device-agent ", "    journalctl ")), text


def test_the_catalog_speaks_of_fields_that_the_lines_have():
    source = "\n".join(path.read_text() for path in (TOP / "agent").rglob("*.py"))
    for name in set(re.findall(r"@DEVICE_AGENT_(\w+)@", CATALOG)):
        assert re.search(rf"\b{name.lower()}=|\"{name.lower()}\": ", source), name


journalctl = shutil.which("journalctl")


@pytest.mark.skipif(not journalctl, reason="journalctl is not installed (Debian: systemd)")
def test_systemd_takes_the_catalog(tmp_path):
    there = tmp_path / "usr/lib/systemd/catalog"
    there.mkdir(parents=True)
    (tmp_path / "var/lib/systemd/catalog").mkdir(parents=True)
    shutil.copy(TOP / "config/device-agent.catalog", there)
    for step in ("--update-catalog", "--list-catalog"):
        done = subprocess.run([journalctl, step, f"--root={tmp_path}"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()} == {kind.value for kind in MessageId}


def test_a_line_that_cannot_be_made_is_told_and_ends_nothing(log, capsys):
    logger, journal, _ = log
    (handler,) = (one for one in logger.handlers if isinstance(one, JournalHandler))  # the test runner's own one raises
    handler.handle(logging.makeLogRecord({"levelno": logging.WARNING, "msg": "%d devices", "args": ("several",)}))
    assert "several" in capsys.readouterr().err  # by the standard library's own means
    logger.warning("%d devices", 2)
    assert read(journal.recv(65536))["MESSAGE"] == "2 devices"
