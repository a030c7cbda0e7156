"""One node for all scenarios; each begins without pods, devices and agent.

Where there can be no node the scenarios are skipped, and say why. With NODE_TESTS=required that is a failure.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.node.machine import Machine, unfit
from tests.node.node import DISTRIBUTION, Node, Runtime

BUILD = Path(__file__).parent.parent / "kubelet" / "build"
NO_GO = 3  # exit code of BUILD
MEASURED: list[str] = []
TAIL = 60  # lines of a log that are shown of a test that failed


def pytest_configure(config):
    config.addinivalue_line("markers", "runtimes(*names): the containerds that a scenario is for; None is Debian's")


def pytest_generate_tests(metafunc):
    if "runtime" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("runtimes")
        names = mark.args if mark else (None,)
        ids = [f"containerd-{name}" if name else pytest.HIDDEN_PARAM for name in names]
        metafunc.parametrize("runtime", names, ids=ids, scope="session")


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("kubelet")


def pytest_terminal_summary(terminalreporter):
    for line in MEASURED:
        terminalreporter.write_line(line)


@pytest.fixture
def report():
    """Says something at the end of the run, however it went."""
    return MEASURED.append


def unable(reason: str):
    if os.environ.get("NODE_TESTS") == "required":
        pytest.fail(f"no node: {reason}")
    pytest.skip(f"no node: {reason}")


def built(name: str) -> Path:
    """A program; built already, as a rule, by `make test-kubelet`."""
    done = subprocess.run([BUILD, name], capture_output=True, text=True, check=False)
    if done.returncode == NO_GO:
        unable(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.split()[1])


@pytest.fixture(scope="session")
def kubelet_program():
    """The whole kubelet."""
    return built("kubelet-1.37")


@pytest.fixture(scope="session")
def control_program():
    """What it registers with."""
    return built("control-1.37")


def new_machine() -> Machine:
    if reason := unfit():
        unable(reason)
    try:
        return Machine()
    except OSError as error:
        unable(str(error))


@pytest.fixture(scope="session")
def running_node(kubelet_program, runtime):
    containers = (
        Runtime(*(str(built(f"{name}-{runtime}")) for name in ("containerd", "shim"))) if runtime else DISTRIBUTION
    )
    machine = new_machine()
    try:
        made = Node(machine, kubelet_program, containers)
        made.begin()
        yield made
    finally:
        machine.close()


@pytest.fixture
def node(running_node):
    """A node whose agent has not been started."""
    yield from fresh(running_node)


def fresh(node: Node):
    marks = {log: log.stat().st_size for log in node.logs()}
    node.install("0")
    yield node
    for log in node.logs():  # pytest shows it if the test failed
        with log.open("rb") as file:
            file.seek(marks.get(log, 0))
            lines = file.read().decode(errors="replace").splitlines()
        print(f"---- {log.name}", *lines[-TAIL:], sep="\n")
    node.clean()
