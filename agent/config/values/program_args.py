"""A program and its arguments, as a leaf of a tree."""

from __future__ import annotations

from agent.config.language.path_rule import find_path_fault
from agent.config.merge.config_tree import Leaf
from agent.config.scope import Scope
from agent.config.values.templates import CompiledTemplate, compile_template


def compile_argv(leaf: Leaf, scope: Scope, *, in_grant: bool = False) -> tuple[CompiledTemplate, ...] | None:
    """The program and its arguments, texts with words; none, with findings, if something is wrong with them.

    The program itself is a path that is written out: no shell looks for it, and no hardware chooses it. giving: it is
    run for a container.
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
        scope.report(program.spot.make_error("path", message, 'write for example "/usr/bin/…"', mark="text"))
        return None
    path = program.template.source
    fault = find_path_fault(path)
    if fault is not None:
        write = fault.write if path.startswith("/") else f'write for example "/usr/bin/{path}"'
        scope.report(
            program.spot.make_error("path", f"{fault.message}; no shell looks for a program", write, mark="text")
        )
        return None
    return arguments
