"""Compiled probes of `[probe.NAME]`."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.language.durations import parse_duration
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.values.program_args import compile_argv
from agent.core.entry.query import ProbeSpec
from agent.core.language.value import Absent, Value

TIMEOUT = 30.0  # seconds that a probe may be silent


def compile_probes(
    tree: Branch, scope: Scope, shared_probes: Mapping[str, ProbeSpec | None]
) -> dict[str, ProbeSpec | None]:
    """Return the probes that an entry or a class can use: its own, and `shared_probes` of agent.toml."""
    probes: dict[str, ProbeSpec | None] = {**shared_probes}
    branch = tree.get_branch("probe")
    for name, member in branch.list_branches() if branch else ():
        probes[name] = _compile_probe(name, member, scope)
    return probes


def _compile_probe(name: str, branch: Branch, scope: Scope) -> ProbeSpec | None:
    run = branch.get_leaf("run")
    if run is None:
        message = f"probe.{name} does not say what is run"
        scope.report_error(branch.spot, "missing", message, 'write run = ["/usr/bin/…"]', mark="key")
        return None
    argv = compile_argv(run, scope)
    if argv is None:
        return None
    arguments: list[str] = []
    for argument in argv:
        word = next((slot.word for slot in argument.template.slots if slot.word not in scope.option_values), None)
        if word is not None:
            if not word.startswith("options."):
                message = f"one probe runs for all devices, and {word} is of one of them"
                scope.report_error(
                    argument.spot, "unknown-word", message, "write options.NAME, or take it out", mark="text"
                )
            return None
        texts = argument.template.write_all(lambda word: _read_option(scope, word))
        arguments += () if isinstance(texts, Absent) else texts
    timeout = branch.get_leaf("timeout")
    value = parse_duration(timeout.value) if timeout and isinstance(timeout.value, str) else TIMEOUT
    if timeout is not None and not value:
        scope.report_error(timeout.spot, "type", "nothing is heard in no time", 'write for example "30s"')
    return ProbeSpec(name, tuple(arguments), value or TIMEOUT)


def _read_option(scope: Scope, word: str) -> Value | Absent:
    return scope.option_values.get(word, Absent("nobody chose"))
