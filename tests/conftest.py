"""The kubelet tier needs programs that are built from Go. It runs only on request."""

import fcntl
import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# However slow a host is, that fails nothing: no test measures time, nor how long it takes to make an example. And what
# has passed passes again: others than the same examples each time are for who looks for them,
# `make test ARGS=--hypothesis-profile=chance`.
ANY_HOST = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("chance", ANY_HOST)
settings.register_profile("any host", ANY_HOST, derandomize=True)
settings.load_profile("any host")

# Where the tests run in the background of a shell Ctrl-C is ignored, and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

KUBELET_TIER = tuple(Path(__file__).parent / name for name in ("real", "node"))


def _asked_for(config):
    named = (Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args)
    return "kubelet" in config.option.markexpr or any(
        tier in (path, *path.parents) for path in named for tier in KUBELET_TIER
    )


def pytest_ignore_collect(collection_path, config):
    return True if collection_path in KUBELET_TIER and not _asked_for(config) else None


@pytest.fixture
def whole_machine():
    """Wait until no other test uses this fixture: one that makes the kernel send events, or adds and removes devices,
    would be seen by another that counts them.

    The lock is of all processes that test on this machine, whatever checkout they are of.
    """
    lock = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable():
    """Escape in the report of a test what is not UTF-8: a worker process cannot send it, and would end.

    Tests have the agent log names of files that are not text, and pytest captures the log.
    """
    return _encodable((yield))


def _encodable(value):
    """The value with every lone surrogate in its texts escaped."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    return type(value)(map(_encodable, value)) if type(value) in {list, tuple} else value


def pytest_terminal_summary(terminalreporter, config):
    if config.args_source == config.ArgsSource.TESTPATHS and not _asked_for(config):
        terminalreporter.write_line("the kubelet tier was not run: `make test-kubelet` runs it (it needs Go)")
