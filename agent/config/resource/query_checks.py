"""Checks with a query to a program, a service or a probe: `run`, `socket`, `probe`."""

from __future__ import annotations

from agent.config.language.value_checks import parse_duration
from agent.config.merge.config_tree import Branch
from agent.config.resource.check_syntax import CheckSource, CheckSyntax
from agent.config.scope import Scope
from agent.config.values.program_args import compile_argv
from agent.config.values.templates import compile_path, compile_template
from agent.core.entry.query import ServiceProtocol
from agent.core.entry.query_check import ProbeTemplate, QueryCheck, RunTemplate, SocketTemplate

DEFAULT_INTERVAL_S = 30.0  # seconds
DEFAULT_TIMEOUT_S = 2.0  # seconds


def _compile_run(source: CheckSource) -> tuple[QueryCheck | None, Scope]:
    leaf, scope = source.branch.get_leaf("run"), source.scope
    argv = compile_argv(leaf, scope) if leaf else None
    if argv is None:
        return None, scope
    templates = tuple(argument.template for argument in argv)
    return RunTemplate(templates, _compile_timeout(source.branch, scope), source.interval or DEFAULT_INTERVAL_S), scope


def _compile_socket(source: CheckSource) -> tuple[QueryCheck | None, Scope]:
    return _compile_service(source.branch, source.scope, source.interval), source.scope


def _compile_service(branch: Branch, scope: Scope, interval: float | None) -> QueryCheck | None:
    leaf = branch.get_leaf("socket")
    path = (
        compile_path(leaf.spot, leaf.value, scope, "a socket", container=False, example="/run/x.sock") if leaf else None
    )
    if path is None:
        return None
    if path.is_list:
        scope.report_error(
            path.spot,
            "type",
            "a device has one socket, and this is a list",
            "use a word with one value",
            mark="text",
        )
        return None
    protocol_leaf, name_leaf, protocol = branch.get_leaf("speaks"), branch.get_leaf("of"), ServiceProtocol.GRPC_HEALTH
    if protocol_leaf is not None:
        protocol = ServiceProtocol(protocol_leaf.value)
    if name_leaf is None and protocol_leaf is not None and protocol is ServiceProtocol.AMD_METRICS:
        message = "this service lists several devices, and the check names none of them"
        scope.report_error(
            protocol_leaf.spot, "missing", message, 'write for example of = "{pci.address}"', mark="text"
        )
        return None
    name = compile_template(name_leaf.spot, name_leaf.value, scope, "what it is called") if name_leaf else None
    if name_leaf is not None and name is None:
        return None
    if name is not None and name.is_list:
        scope.report_error(
            name.spot,
            "type",
            "a query names one device, and this is a list",
            "use a word with one value",
            mark="text",
        )
        return None
    return SocketTemplate(
        path.template,
        _compile_timeout(branch, scope),
        interval or DEFAULT_INTERVAL_S,
        name.template if name else None,
        protocol,
    )


def _compile_probe(source: CheckSource) -> tuple[QueryCheck | None, Scope]:
    leaf, scope = source.branch.get_leaf("probe"), source.scope
    probe = scope.find_probe(leaf.spot, leaf.value) if leaf else None
    return (None if probe is None else ProbeTemplate(probe)), scope


def _compile_timeout(branch: Branch, scope: Scope) -> float:
    """Return the timeout of a query in seconds."""
    leaf = branch.get_leaf("timeout")
    value = parse_duration(leaf.value) if leaf and isinstance(leaf.value, str) else DEFAULT_TIMEOUT_S
    if leaf is not None and not value:
        scope.report_error(leaf.spot, "type", "timeout is more than 0 s", 'write for example "2s"')
    return value or DEFAULT_TIMEOUT_S


RUN_SYNTAX = CheckSyntax(_compile_run, "{} ends well", {"timeout": " within {}"})
SOCKET_SYNTAX = CheckSyntax(
    _compile_socket, "the service at {} says so", {"of": " of {}", "speaks": ", in {}", "timeout": " within {}"}
)
PROBE_SYNTAX = CheckSyntax(_compile_probe, "the probe {} says so")
