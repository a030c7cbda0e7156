"""The language as a JSON Schema (draft 07, which editors know), built from the tables of the language.

The schema checks sections, keys, operators and the forms of values. Words are checked if the source of an entry is
known, which needs the merged classes: `list_entry_words`. Only `check` finds merge faults, cycles and differences
between devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.config.language.key_table import EITHER, OPERATORS, PLACES, VERBS, WARNINGS, Key, Shape
from agent.config.language.value_checks import CHOICES, PREFER, RDMA, SCALAR_SCHEMA, SCHEMAS, TEXT_SCHEMA, Schema

_DRAFT = "http://json-schema.org/draft-07/schema#"
_PATH = r"^(\./|/|[a-z_.]+/)"
_WORD = rf"^(?!({'|'.join(OPERATORS)}|{EITHER})$)[A-Za-z_][A-Za-z0-9_]*$"
_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_-]*$"


def _format_codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


# The text of each kind of value.
_TYPE_TEXTS: Mapping[str, str] = {
    "texts": "text, or a list of text",
    "words": "a list of text",
    "argv": "a list: program and arguments",
    "int": "a number",
    "count": "a number from 1",
    "bool": "`true`, `false`",
    "data": "text, a number, a bool, or a list of these",
    "duration": "a time: `5s`",
    "trip": "`2 looks`, `2s`, `3 in 10m`",
    "recover": "`2 looks`, `30s`, `never`",
    "rdma": f"a list of {_format_codes(RDMA)}",
    "prefer": f"a list of rules: {_format_codes(PREFER)}",
    "topology": "a word, `none`, or a list of numbers",
    "source": "a kind, or a table",
    "kind_of_source": "a kind of source",
    "permissions": "letters of `r`, `w`, `m`",
    "any": "text",
}


def build_resource_schema(words: Sequence[Iterable[str] | None] = ()) -> Schema:
    """Return the schema of a file below resources.d.

    words: for each entry, the words that lines of its clauses can begin with. None: any word.
    """
    entries: Schema = {"type": "array", "items": {"$ref": "#/definitions/entry"}}
    entry_definitions: Schema = {}
    if words:
        entries["items"] = [
            _build_entry(index, first_words, entry_definitions) for index, first_words in enumerate(words)
        ]
        entries["additionalItems"] = {"$ref": "#/definitions/entry"}
    return {
        "$schema": _DRAFT,
        "title": "device-agent: a file of resources",
        "type": "object",
        "properties": {"resource": entries},
        "additionalProperties": False,
        "definitions": {**_build_definitions(), **entry_definitions},
    }


def build_class_schema() -> Schema:
    """Return the schema of a device class."""
    return {
        "$schema": _DRAFT,
        "title": "device-agent: a device class",
        "allOf": [{"$ref": "#/definitions/class"}],
        "required": ["about"],
        "definitions": _build_definitions(),
    }


def describe_value(key: Key) -> str:
    """Return a short text about the value of a key."""
    shape_texts = {
        Shape.CLAUSE: "a clause",
        Shape.CLAUSES: "named clauses",
        Shape.TABLE: "a table",
        Shape.NAMED: "a table of names",
        Shape.OPEN: "a table",
        Shape.PAIRS: "word = word",
    }
    texts = [shape_texts[key.shape]] if key.shape in shape_texts else []
    if key.shape is Shape.TABLE and key.short:
        texts.append(_TYPE_TEXTS.get(PLACES[key.inner_place].keys[key.short].type, "text"))
    if key.type in CHOICES:
        texts.append(_format_codes(CHOICES[key.type]))
    elif key.type:
        texts.append(_TYPE_TEXTS.get(key.type, key.type))
    texts += ["`true`"] if key.allows_true else []
    return ", or ".join(texts)


def _build_definitions() -> Schema:
    return {
        **{place: build_table(place) for place in PLACES if place != "file"},
        "clause": _build_clause(),
        "test": _build_test(),
    }


def build_table(place: str) -> Schema:
    """Return the schema of a table with the keys of a place. Some tables need exactly one verb."""
    properties = {name: _build_key(key) for name, key in PLACES[place].keys.items()}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    verbs = VERBS.get(place, ())
    if place in {"entry", "class"}:
        schema["not"] = {"required": ["name", "adds_to"]}
    elif place == "source":
        schema["oneOf"] = [{"required": [form]} for form in properties if form != "every"]
    elif verbs and place not in {"replicas", "let", "join", "health"}:
        schema["not"] = {"required": [*verbs]}
    return schema


def _build_key(key: Key) -> Schema:
    default = f"; default {key.default}" if key.default else ""
    return {"description": f"{key.meaning}{default}", **_build_shape(key)}


def _build_shape(key: Key) -> Schema:
    forms: list[Schema] = []
    match key.shape:
        case Shape.CLAUSE:
            forms = [{"$ref": "#/definitions/clause"}]
        case Shape.CLAUSES:
            forms = [_build_named_table({"$ref": "#/definitions/clause"})]
        case Shape.TABLE:
            forms = [{"$ref": f"#/definitions/{key.inner_place}"}]
        case Shape.NAMED:
            forms = [_build_named_table({"$ref": f"#/definitions/{key.inner_place}"}, key)]
        case Shape.OPEN if key.name == "accept":
            codes = dict.fromkeys(sorted(WARNINGS), TEXT_SCHEMA)
            forms = [{"type": "object", "properties": codes, "additionalProperties": False}]
        case Shape.OPEN:
            forms = [{"type": "object"}]
        case Shape.PAIRS:
            forms = [{"type": "object", "additionalProperties": TEXT_SCHEMA, "minProperties": 1}]
    if key.shape is Shape.TABLE and key.short:
        forms.append(SCHEMAS[PLACES[key.inner_place].keys[key.short].type])
    if key.type:
        forms.append(SCHEMAS[key.type])
    if key.allows_true:
        forms.append({"const": True})
    if key.allows_false:
        forms.append({"const": False})
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _build_named_table(item_schema: Schema, key: Key | None = None) -> Schema:
    """Return the schema of a table with names that the user chooses. `false` removes an item."""
    forms = [item_schema, {"const": False}]
    if key is not None:
        inner_keys = PLACES[key.inner_place].keys
        forms += [SCHEMAS[inner_keys[short].type] for short in (key.short, key.short_list) if short]
    return {"type": "object", "patternProperties": {_NAME: {"anyOf": forms}}, "additionalProperties": False}


def _build_clause(words: Iterable[str] | None = None) -> Schema:
    """Return the schema of a clause: words, nested relations, paths and `either`."""
    line: Schema = {"anyOf": [{"$ref": "#/definitions/test"}, {"$ref": "#/definitions/clause"}]}
    schema: Schema = {
        "type": "object",
        "properties": {EITHER: {"type": "object", "additionalProperties": {"$ref": "#/definitions/clause"}}},
        "patternProperties": {_PATH: {"$ref": "#/definitions/test"}},
        "additionalProperties": False,
    }
    if words is None:
        schema["patternProperties"][_WORD] = line
    else:
        schema["properties"] |= dict.fromkeys(sorted(words), line)
    return schema


def _build_test() -> Schema:
    test: Schema = {"$ref": "#/definitions/test"}
    element_test: Schema = {"anyOf": [test, {"$ref": "#/definitions/clause"}]}
    number: Schema = {"type": "integer"}
    item_list: Schema = {"type": "array", "minItems": 1}
    operators: Schema = {
        "not": test,
        "count": test,
        "any": element_test,
        "every": element_test,
        "none": element_test,
        "exists": {"type": "boolean"},
        "at_least": number,
        "at_most": number,
        "above": number,
        "below": number,
        "has": SCALAR_SCHEMA,
        "has_all": item_list,
        "has_any": item_list,
        "like": SCHEMAS["texts"],
        "matching": TEXT_SCHEMA,
        "contains": TEXT_SCHEMA,
        "in": TEXT_SCHEMA,
    }
    table = {"type": "object", "properties": operators, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [SCALAR_SCHEMA, {"type": "array", "items": test, "minItems": 1}, table]}


def _build_entry(index: int, words: Iterable[str] | None, definitions: Schema) -> Schema:
    """Return the schema of an entry whose clauses accept only these words."""
    clause = f"clause_{index}"
    definitions[clause] = _build_clause(words)
    definitions[f"entry_{index}"] = entry = build_table("entry")
    for key in ("match", "exclude", "wait"):
        shape = entry["properties"][key]
        clause_reference = {"$ref": f"#/definitions/{clause}"}
        clause_schema = clause_reference if key == "match" else _build_named_table(clause_reference)
        entry["properties"][key] = {**shape, "anyOf": [clause_schema, {"const": False}]}
    return {"$ref": f"#/definitions/entry_{index}"}
