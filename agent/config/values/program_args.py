"""Programs of an entry: the arguments of a program, and the probes of `[probe.NAME]`."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.language.path_rule import find_path_fault
from agent.config.language.value_checks import parse_duration
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope, require_all
from agent.config.values.templates import CompiledTemplate, compile_template
from agent.core.entry.query import ProbeSpec
from agent.core.language.value import Absent, Value

TIMEOUT = 30.0  # seconds that a probe may be silent


def compile_probes(
    tree: Branch, scope: Scope, shared_probes: Mapping[str, ProbeSpec | None]
) -> dict[str, ProbeSpec | None]:
    """Return the probes that an entry or a class can use: its own, and `shared_probes` of agent.toml."""
    probes: dict[str, ProbeSpec | None] = {**shared_probes}
    for name, member in tree.list_branches("probe"):
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


def compile_argv(leaf: Leaf, scope: Scope, *, in_grant: bool = False) -> tuple[CompiledTemplate, ...] | None:
    """Return the program and its arguments as templates, or None with findings.

    The program is a full path without words: no shell searches for it, and no hardware selects it.
    in_grant: the program runs for a container.
    """
    items = leaf.value if isinstance(leaf.value, list) else []
    arguments = require_all(
        compile_template(leaf.spot.get_child(index), item, scope, "an argument", in_grant=in_grant, may_be_empty=True)
        for index, item in enumerate(items)
    )
    if not arguments:
        return None
    program = arguments[0]
    if program.template.slots:
        message = "a program is written out: no word says which one is run"
        scope.report_error(program.spot, "path", message, 'write for example "/usr/bin/…"', mark="text")
        return None
    path = program.template.source
    fault = find_path_fault(path)
    if fault is not None:
        write = fault.write if path.startswith("/") else f'write for example "/usr/bin/{path}"'
        scope.report_error(program.spot, "path", f"{fault.message}; no shell looks for a program", write, mark="text")
        return None
    return arguments
