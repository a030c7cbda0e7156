"""The kernel log: what of it is the kernel's, what is torn, lost or goes on, and the real one."""

import errno
import os

import pytest

from agent.host import kmsg
from agent.host.kmsg import KernelLog
from agent.host.root import Root

KERNEL, USER = 6, 14  # facility 0 and 1, at level 6


def format_record(number, text, prefix=KERNEL, flags="-", seconds=1.0):
    return f"{prefix},{number},{int(seconds * 1e6)},{flags};{text}\n"


@pytest.fixture
def log(tree):
    made = KernelLog(tree.root)
    yield made
    made.close()


@pytest.fixture
def machine():
    """The machine's own, open to read and write."""
    try:
        with open("/dev/kmsg", "r+b", buffering=0) as opened:
            yield opened
    except (PermissionError, FileNotFoundError) as error:
        pytest.skip(f"/dev/kmsg: {error.strerror}")


def read_lines(log):
    lines = []
    while (taken := log.read_records(3)) is not None:
        lines += taken
    return lines


def read_records(log):
    """Return all records with the parsed part of each."""
    seen = []
    while (taken := log.read_records(1)) is not None:
        seen.append((log._last.text, log._last.is_from_kernel, taken))
    return seen


def texts(log):
    return [(record.number, record.text) for record in read_lines(log)]


def test_a_tree_without_a_log_says_nothing_until_it_has_one(tree, log):
    assert log.open() is None
    assert log.handle is None
    assert read_lines(log) == []
    tree.file("/dev/kmsg", format_record(1, "a"))
    assert texts(log) == [(1, "a")]


def test_lines_in_their_order_and_what_belongs_to_them(tree, log):
    tree.file(
        "/dev/kmsg",
        format_record(7, "npu 0: broken; badly")
        + " SUBSYSTEM=npu\n DEVICE=+npu:npu0\n"
        + format_record(8, "a\\x0ab", flags="-,caller=T1"),
    )
    assert log.open() is None
    assert texts(log) == [(7, "npu 0: broken; badly"), (8, "a\\x0ab")]


def test_what_a_program_wrote_is_not_the_kernels(tree, log):
    """Anybody who may write to /dev/kmsg could make a GPU ill; the kernel keeps facility 0 to itself."""
    tree.file(
        "/dev/kmsg",
        format_record(1, "Xid 1: 79", prefix=USER)
        + format_record(2, "Xid 1: 79", prefix=30)
        + format_record(3, "x", prefix=7),
    )
    log.open()
    assert texts(log) == [(3, "x")]


@pytest.mark.parametrize("junk", ["", "junk", "6,1;x", "6,1,2,-", "-6,1,2,-;x", "6,one,2,-;x", ";;;", "6,1,2"])
def test_what_is_no_line_is_passed_over(tree, log, junk):
    tree.file("/dev/kmsg", format_record(1, "a") + junk + "\n" + format_record(2, "b"))
    log.open()
    assert texts(log) == [(1, "a"), (2, "b")]


def test_a_torn_line_is_read_when_it_is_whole(tree, log):
    whole = format_record(1, "a") + format_record(2, "Xid 1: 79")
    tree.file("/dev/kmsg", whole[:-3])
    log.open()
    assert texts(log) == [(1, "a")]
    with open(tree.at("/dev/kmsg"), "a") as file:
        file.write(whole[-3:] + format_record(3, "b"))
    assert texts(log) == [(2, "Xid 1: 79"), (3, "b")]


def test_a_line_without_end_is_kept_in_part_only(tree, log):
    tree.file("/dev/kmsg", format_record(1, "a") + "6,2,2,-;" + "x" * (1 << 20))
    log.open()
    assert texts(log) == [(1, "a")]
    assert len(log._partial_line) <= 1 << 17
    with open(tree.at("/dev/kmsg"), "a") as file:
        file.write("\n" + format_record(3, "b"))
    assert [number for number, _ in texts(log)] == [2, 3]


def test_a_line_that_goes_on_is_with_its_beginning(tree, log):
    tree.file(
        "/dev/kmsg",
        format_record(1, "Xid 1")
        + format_record(2, ": 79", flags="c")
        + format_record(3, ", pid", flags="c")
        + format_record(4, "other", prefix=USER)
        + format_record(5, " of a program", flags="c")
        + format_record(9, " whose beginning is lost", flags="c"),
    )
    log.open()
    assert [(record.text, record.is_continuation) for record in read_lines(log)] == [
        ("Xid 1", False),
        ("Xid 1: 79", True),
        ("Xid 1: 79, pid", True),
    ]


def test_when_it_was_heard(tree):
    """By the kernel's clock what was said before we listened, which runs a little otherwise; by ours what we hear."""
    log = KernelLog(tree.root, clock=lambda: 100.0)
    tree.file("/dev/kmsg", format_record(1, "a", seconds=7.5) + format_record(2, "ahead of us", seconds=101.0))
    log.open()
    assert [record.monotonic_s for record in read_lines(log)] == [7.5, 100.0]
    with open(tree.at("/dev/kmsg"), "a") as file:
        file.write(format_record(3, "b", seconds=40.0))
    assert [record.monotonic_s for record in read_lines(log)] == [100.0]
    log.close()


class Device:
    """What reads of /dev/kmsg give, one after the other."""

    def __init__(self, monkeypatch, *reads):
        self.reads = list(reads)
        monkeypatch.setattr(kmsg.os, "read", self.read)

    def read(self, handle, size):
        del handle
        assert size >= 8192
        one = self.reads.pop(0) if self.reads else BlockingIOError()
        if isinstance(one, Exception):
            raise one
        return one.encode()


@pytest.fixture
def device(tree, log, monkeypatch):
    tree.at("/dev").mkdir(parents=True, exist_ok=True)
    os.mkfifo(tree.at("/dev/kmsg"))
    assert log.open() is None
    assert log.handle is not None
    return lambda *reads: Device(monkeypatch, *reads)


def test_an_overrun_is_told_and_the_rest_is_read(log, device, caplog):
    device(
        format_record(1, "a"),
        BlockingIOError(),
        BlockingIOError(),
        OSError(errno.EPIPE, ""),
        format_record(5, "b"),
        OSError(errno.EINVAL, ""),
        format_record(6, "c"),
    )
    assert [record.number for record in log.read_records(9)] == [1]
    assert log.read_records(9) is None
    assert [record.number for record in log.read_records(9)] == [5, 6]
    assert (caplog.messages, log.overruns) == (["the kernel log overran: 3 lines are lost"], 1)


def test_a_gap_in_what_was_said_before_we_listened_is_no_loss_of_ours(log, device, caplog):
    device(format_record(1, "a"), OSError(errno.EPIPE, ""), format_record(5, "b"))
    assert [record.number for record in log.read_records(9)] == [1, 5]
    assert (caplog.messages, log.overruns) == ([], 0)


def test_only_so_many_in_one_go(log, device):
    device(*(format_record(number, "a") for number in range(5)))
    assert [len(log.read_records(2)) for _ in range(3)] == [2, 2, 1]
    assert log.read_records(2) is None


def test_what_can_be_read_no_more_is_told(log, device, caplog):
    device(OSError(errno.EIO, "broken"))
    assert log.read_records(2) is None
    assert "broken" in caplog.text
    assert log.is_at_end
    device(format_record(1, "a"))
    assert [record.number for record in log.read_records(2)] == [1]
    assert not log.is_at_end


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errno.EPERM, "/dev/kmsg cannot be read: not permitted"),
        (errno.EACCES, "/dev/kmsg cannot be read: not permitted"),
        (errno.ENOENT, "/dev/kmsg cannot be read: there is none"),
        (errno.EIO, "/dev/kmsg cannot be read: Input/output error"),
    ],
)
def test_why_it_cannot_be_read(monkeypatch, error, reason):
    def refuse(*arguments):
        del arguments
        raise OSError(error, "")

    monkeypatch.setattr(kmsg.os, "open", refuse)
    log = KernelLog(Root())
    assert log.open().reason == reason
    assert log.read_records(1) is None


def test_it_is_handed_over_to_whoever_may_not_open_it(machine, monkeypatch):
    """As the unit does it: all that was said since boot is heard, at each beginning, and nothing is left open."""
    mine = f"device-agent test {os.getpid()}, earlier"
    machine.write(f"<2>{mine}\n".encode())
    machine.seek(0, os.SEEK_END)
    monkeypatch.setattr(kmsg, "STDIN", machine.fileno())
    monkeypatch.setattr(kmsg.os, "open", None)
    log = KernelLog(Root())
    for _ in range(2):
        assert log.open() is None
        assert log.handle not in {None, machine.fileno()}
        assert (mine, False, ()) in read_records(log)
    log.close()
    assert os.fstat(machine.fileno())


@pytest.mark.parametrize("other", ["/dev/null", "/dev/zero", __file__])
def test_another_standard_input_is_no_kernel_log(monkeypatch, other):
    opened = []
    with open(other, "rb") as given:
        monkeypatch.setattr(kmsg, "STDIN", given.fileno())
        monkeypatch.setattr(kmsg.os, "open", lambda path, *_: opened.append(path) or os.dup(given.fileno()))
        log = KernelLog(Root())
        assert log.open() is None
        log.close()
    assert opened == ["/dev/kmsg"]


def test_of_a_tree_it_is_never_the_machines(tree, machine, monkeypatch):
    tree.file("/dev/kmsg", format_record(1, "a"))
    monkeypatch.setattr(kmsg, "STDIN", machine.fileno())
    log = KernelLog(tree.root)
    assert log.open() is None
    assert texts(log) == [(1, "a")]
    log.close()


def test_the_real_one(machine):
    """As any program may: a line that we write is there, and is none of the kernel's."""
    log = KernelLog(Root())
    assert log.open() is None
    read_lines(log)
    mine = f"device-agent test {os.getpid()}"
    machine.write(f"<2>{mine}\n".encode())
    assert (mine, False, ()) in read_records(log)
    log.close()
