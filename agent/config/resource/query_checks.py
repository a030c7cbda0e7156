"""Checks with a query to a program, a service or a probe: `run`, `socket`, `probe`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.config.language.durations import parse_duration
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.values.program_args import compile_argv
from agent.config.values.templates import compile_path, compile_template
from agent.core.entry.query import ProbeTemplate, QueryTemplate, RunTemplate, ServiceProtocol, SocketTemplate

DEFAULT_INTERVAL_S = 30.0  # seconds
DEFAULT_TIMEOUT_S = 2.0  # seconds


def _compile_run(branch: Branch, scope: Scope, interval: float | None) -> QueryTemplate | None:
    leaf = branch.get_leaf("run")
    argv = compile_argv(leaf, scope) if leaf else None
    return (
        None
        if argv is None
        else RunTemplate(
            tuple(argument.template for argument in argv),
            _compile_timeout(branch, scope),
            interval or DEFAULT_INTERVAL_S,
        )
    )


def _compile_socket(branch: Branch, scope: Scope, interval: float | None) -> QueryTemplate | None:
    leaf = branch.get_leaf("socket")
    path = (
        compile_path(leaf.spot, leaf.value, scope, "a socket", container=False, example="/run/x.sock") if leaf else None
    )
    if path is None:
        return None
    if path.is_list:
        scope.report(
            path.spot.make_error(
                "type", "a device has one socket, and this is a list", "take a word that says one thing", mark="text"
            )
        )
        return None
    protocol_leaf, name_leaf, protocol = branch.get_leaf("speaks"), branch.get_leaf("of"), ServiceProtocol.GRPC_HEALTH
    if protocol_leaf is not None:
        protocol = ServiceProtocol(protocol_leaf.value)
    if name_leaf is None and protocol_leaf is not None and protocol is ServiceProtocol.AMD_METRICS:
        message = "that service lists many devices, and this does not say which is the one"
        scope.report(
            protocol_leaf.spot.make_error("missing", message, 'write for example of = "{pci.address}"', mark="text")
        )
        return None
    name = compile_template(name_leaf.spot, name_leaf.value, scope, "what it is called") if name_leaf else None
    if name_leaf is not None and name is None:
        return None
    if name is not None and name.is_list:
        scope.report(
            name.spot.make_error(
                "type",
                "a service is asked for one name, and this is a list",
                "take a word that says one thing",
                mark="text",
            )
        )
        return None
    return SocketTemplate(
        path.template,
        _compile_timeout(branch, scope),
        interval or DEFAULT_INTERVAL_S,
        name.template if name else None,
        protocol,
    )


def _compile_probe(branch: Branch, scope: Scope, interval: float | None) -> QueryTemplate | None:
    del interval
    leaf = branch.get_leaf("probe")
    probe = scope.find_probe(leaf.spot, leaf.value) if leaf else None
    return None if probe is None else ProbeTemplate(probe)


def _compile_timeout(branch: Branch, scope: Scope) -> float:
    """Return the timeout of a query in seconds."""
    leaf = branch.get_leaf("timeout")
    value = parse_duration(leaf.value) if leaf and isinstance(leaf.value, str) else DEFAULT_TIMEOUT_S
    if leaf is not None and not value:
        scope.report(leaf.spot.make_error("type", "nothing answers in no time", 'write for example "2s"'))
    return value or DEFAULT_TIMEOUT_S


def report_misplaced_keys(name: str, branch: Branch, scope: Scope) -> None:
    """Report keys that belong to another verb than that of the check."""
    timeout, interval = branch.get_leaf("timeout"), branch.get_leaf("every")
    if timeout is not None and branch.verbs and not set(branch.verbs) & _TIMED:
        message = f"health.{name} waits for nobody, so there is nothing to time out"
        scope.report(
            timeout.spot.make_error("type", message, f"timeout goes with {', '.join(sorted(_TIMED))}", mark="key")
        )
    for key in ("of", "speaks"):
        leaf = branch.get_leaf(key)
        if leaf is not None and branch.verbs and "socket" not in branch.verbs:
            message = f"{key} is about a service, and health.{name} asks none"
            scope.report(leaf.spot.make_error("type", message, f"{key} goes with socket", mark="key"))
    if interval is not None and "probe" in branch.verbs:
        message = f"a probe says what it has to say when it is so, and health.{name} does not ask"
        scope.report(interval.spot.make_error("type", message, "take it out", mark="key"))
    if "log" in branch.verbs:
        return
    for key in ("only", "ignore", "latch"):
        clause = branch.get_branch(key)
        if clause is not None:
            message = f"a clause in {key} is over what log takes, and this takes nothing"
            write = 'latch = true, or recover = "never"' if key == "latch" else "say it in holds, or in when"
            scope.report(clause.spot.make_error("type", message, write, mark="key"))


_TIMED = frozenset({"run", "socket"})
QUERY_COMPILERS: Mapping[str, Callable[[Branch, Scope, float | None], QueryTemplate | None]] = {
    "run": _compile_run,
    "socket": _compile_socket,
    "probe": _compile_probe,
}
