"""A program and its arguments, from a leaf of a tree."""

from __future__ import annotations

from agent.config.language.path_rule import find_path_fault
from agent.config.merge.config_tree import Leaf
from agent.config.scope import Scope
from agent.config.values.templates import CompiledTemplate, compile_template


def compile_argv(leaf: Leaf, scope: Scope, *, in_grant: bool = False) -> tuple[CompiledTemplate, ...] | None:
    """Return the program and its arguments as templates, or None with findings.

    The program is a full path without words: no shell searches for it, and no hardware selects it.
    in_grant: the program runs for a container.
    """
    items = leaf.value if isinstance(leaf.value, list) else []
    templates = [
        compile_template(leaf.spot.get_child(index), item, scope, "an argument", in_grant=in_grant, may_be_empty=True)
        for index, item in enumerate(items)
    ]
    arguments = tuple(template for template in templates if template is not None)
    if not arguments or len(arguments) < len(templates):
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
