"""The documentation of a class: what its own sentence says, by subject, and how an entry uses it."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config.describe.class_notes import notes
from agent.config.describe.description_clause import value
from agent.config.describe.entry_text import sections
from agent.config.describe.id_stability import lasting
from agent.config.describe.text_layout import fold
from agent.config.load import LoadedConfig
from agent.config.merge.config_tree import Branch
from agent.core.language.safe_text import count_columns, escape
from agent.core.struct import Struct

_SUBJECTS = ("takes", "words", "name", "id", "shares", "waits", "health", "gives", "prefers", "options", "besides")


class Manual(Struct):
    """A class as its users see it.

    own: it is one of the configuration's. part: it is for others to use. takes: its source, in words.
    says: what it says, by subject, in the order in which it is read, and what holds where it says nothing.
    notes: advice and traps, in pieces of prose and of TOML. example: TOML to paste.
    """

    name: str
    about: str
    file: str
    own: bool
    part: bool
    takes: str
    uses: tuple[str, ...]
    says: tuple[tuple[str, str], ...]
    notes: tuple[tuple[bool, str], ...]
    example: str


def manual(study: LoadedConfig, name: str) -> Manual:
    """The documentation of a class."""
    tree = study.library.get_class(name).tree
    found = [
        (subject, "  " * max(0, said.level - (subject == "words")) + said.text)
        for subject, clauses in sections(tree)
        for said in clauses
    ]
    found += [("id", f"  {said}") for said in lasting(tree)]
    found += _silent(tree, {subject for subject, _ in found})
    says = [(subject, said) for wanted in _SUBJECTS for subject, said in found if subject == wanted]
    about, uses = tree.get_leaf("about"), tree.get_leaf("uses")
    return Manual(
        name=name,
        about=value(about.value) if about else "",
        file=study.library.get_path(name),
        own=name in study.local_class_names,
        part="source" not in tree.members or tree.is_on("part"),
        takes="" if "source" not in tree.members else says[0][1].removeprefix("Every "),
        uses=tuple(map(value, uses.value)) if uses and isinstance(uses.value, list) else (),
        says=tuple(_asked(subject, said, tree) for subject, said in says),
        notes=tuple(notes(tree.spot.document.text)),
        example=_example(name, tree),
    )


def _silent(tree: Branch, said: set[str]) -> Iterator[tuple[str, str]]:
    """What holds of devices where their class says nothing."""
    if "source" not in tree.members:
        return
    if "shares" not in said and "slots" not in tree.members:
        yield "shares", "not shared: one container has a device at a time"
    if "health" not in said:
        yield "health", "healthy while it is there"
    if "topology" not in tree.members and "slots" not in tree.members:
        yield "prefers", "the kubelet is told the NUMA node of each, where it has one"


def lines_of(one: Manual, width: int | None) -> list[str]:
    """The documentation as text: subjects at the left, what is said at the right."""
    rows = [("file", one.file), *((("uses", ", ".join(one.uses)),) if one.uses else ()), *one.says]
    rows += [("notes", f"{'  ' * toml}{line}") for toml, piece in one.notes for line in piece.split("\n")]
    rows += [("example", line) for line in one.example.splitlines()]
    lines = _fold(f"{one.name}{f'   {one.about}' if one.about else ''}", "    ", width)
    before = ""
    for subject, said in rows:
        label = f"  {'' if subject == before else subject:10}  "
        indent = " " * (len(label) + len(said) - len(said.lstrip(" ")) + 2)
        lines += _fold(label + said, indent, width)
        before = subject
    return [line.rstrip() for line in lines]


def _fold(text: str, indent: str, width: int | None) -> list[str]:
    shown = escape(text)
    return [shown] if width is None or count_columns(shown) <= width else fold(shown, indent, width)


def _asked(subject: str, said: str, tree: Branch) -> tuple[str, str]:
    """An option together with what it is about."""
    name = said.split()[1] if subject == "options" and len(said.split()) > 1 else ""
    option = (tree.get_branch("options") or Branch({}, tree.spot)).get_branch(name.rstrip(","))
    about = option.get_leaf("about") if option else None
    return subject, f"{said.removeprefix('option ')}{f': {value(about.value)}' if about else ''}" if name else said


def _example(name: str, tree: Branch) -> str:
    """An entry that uses the class: as few lines as can be."""
    lines = ["[[resource]]"]
    is_part = "source" not in tree.members
    if is_part or tree.members.keys().isdisjoint(("name", "adds_to")):
        lines.append(f'name = "example.com/{name}"')
    if is_part:
        lines.append(f'uses = ["{name}"]  # beside a class or a source of yours')
    else:
        lines.append(f'class = "{name}"')
    for option_name, option in (tree.get_branch("options") or Branch({}, tree.spot)).list_branches():
        if option.members.keys().isdisjoint(("default", "value")):
            lines.append(f"options.{option_name} = {_answer(option)}")
    return "\n".join(lines)


def _answer(option: Branch) -> str:
    """A value that an option may have."""
    for key, answer in (("one_of", '"{}"'), ("some_of", '["{}"]')):
        if (choices := option.get_leaf(key)) is not None and isinstance(choices.value, list) and choices.value:
            return answer.format(value(choices.value[0]))
    return "…"
