"""Tables that become JSON: parsed templates with checked words."""

from __future__ import annotations

import json
import math

from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope, require_all
from agent.config.toml.file_position import FilePosition, FindingMark
from agent.config.values.templates import CompiledTemplate, compile_template
from agent.core.language.json_template import JsonArray, JsonLiteral, JsonPart, JsonTable
from agent.core.language.template import Template
from agent.core.struct import MutableStruct, Struct


class CompiledValue(Struct):
    """The value of a variable, with its position. The flags are those of `CompiledTemplate`.

    text: None if the value has an error, which is reported.
    """

    text: Template | JsonTable | None
    spot: FilePosition
    varies: bool = False
    is_list: bool = False
    is_certain: bool = True
    is_json: bool = False

    @property
    def mark(self) -> FindingMark:
        """Return the part of the position that a finding marks."""
        return "key" if self.is_json else "text"


def compile_json(branch: Branch, scope: Scope, subject: str = "json") -> CompiledValue:
    """Return a table that becomes JSON."""
    if not branch.members:
        scope.report_error(
            branch.spot, "type", f"{subject} says nothing", "write what the object has in it", mark="key"
        )
        return CompiledValue(None, branch.spot, is_json=True)
    compiler = _JsonCompiler(scope, [])
    table = compiler.compile_table(branch)
    templates = compiler.templates
    return CompiledValue(
        table,
        branch.spot,
        varies=any(template.varies for template in templates),
        is_certain=all(template.is_certain for template in templates),
        is_json=True,
    )


class _JsonCompiler(MutableStruct):
    scope: Scope
    templates: list[CompiledTemplate]

    def compile_table(self, branch: Branch) -> JsonTable | None:
        """Return the table of a branch. Return None with findings if a part cannot be JSON."""
        parts: list[tuple[str, JsonPart | None]] = []
        for name, node in branch.members.items():
            if isinstance(node, Branch):
                parts.append((self._check_name(node.spot, name), self.compile_table(node)))
            elif isinstance(node, Leaf):
                parts.append((self._check_name(node.spot, name), self._compile_part(node.spot, node.value)))
        members = [(name, part) for name, part in parts if part is not None]
        return JsonTable(tuple(members)) if len(members) == len(parts) else None

    def _check_name(self, spot: FilePosition, name: str) -> str:
        if "{" in name or "}" in name:
            message = "a word stands in a value; names in JSON are as they are written"
            self.scope.report_error(spot, "text", message, "key makes a member for each device", mark="key")
        return name

    def _compile_part(self, spot: FilePosition, value: object) -> JsonPart | None:
        if isinstance(value, str):
            compiled = compile_template(spot, value, self.scope, "a text of JSON", in_grant=True, may_be_empty=True)
            if compiled is None:
                return None
            self.templates.append(compiled)
            return compiled.template
        if isinstance(value, list):
            parts: tuple[JsonPart, ...] | None
            parts = require_all([self._compile_part(child, item) for child, item in spot.list_elements(value)])
            return None if parts is None else JsonArray(parts)
        if isinstance(value, dict):
            members = [
                (self._check_name(spot.get_child(key), key), self._compile_part(spot.get_child(key), value[key]))
                for key in value
            ]
            compiled_members = tuple((name, part) for name, part in members if part is not None)
            return JsonTable(compiled_members) if len(compiled_members) == len(members) else None
        if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return JsonLiteral(json.dumps(value))
        self.scope.report_error(
            spot, "type", "JSON has texts, numbers, true and false, lists and tables", "write it as text"
        )
        return None
