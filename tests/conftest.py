"""The kubelet tier needs programs that are built from Go: it runs when it is asked for."""

import signal
from pathlib import Path

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


def pytest_terminal_summary(terminalreporter, config):
    if config.args_source == config.ArgsSource.TESTPATHS and not _asked_for(config):
        terminalreporter.write_line("the kubelet tier was not run: `make test-kubelet` runs it (it needs Go)")
