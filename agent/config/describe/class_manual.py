"""The manual of a class: its description by subject, and an example entry."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config.describe.description_clause import format_value, get_text
from agent.config.describe.entry_text import describe_sections
from agent.config.describe.text_layout import fold_text
from agent.config.load import LoadedConfig
from agent.config.merge.config_tree import Branch
from agent.config.sources import get_source_kind
from agent.core.language.safe_text import count_columns, escape
from agent.core.language.template import Slot, TemplateError, parse
from agent.core.struct import Struct
from agent.scanners import source_kinds

# Last parts of words, most significant first, and what an ID with such a word follows.
_FOLLOWS = (
    (frozenset({"serial", "uuid", "wwid"}), "the device itself, wherever it is plugged in"),
    (frozenset({"address", "slot"}), "the PCI slot: another card in it has the same id"),
    (frozenset({"path_id"}), "the place where it is plugged in"),
    (frozenset({"port", "hub"}), "the USB port, where the machine has one USB controller"),
    (frozenset({"name", "below_dev", "node"}), "the kernel's name for it"),
)


def describe_id_stability(tree: Branch) -> Iterator[str]:
    """Yield one line for each ID template of a class or entry. A class without ID templates yields nothing."""
    accepted_reason = (tree.get_branch("accept") or Branch({}, tree.spot)).get_leaf("unstable-id")
    if accepted_reason is not None:
        yield f"may be dealt anew: {format_value(accepted_reason.value)}"
    if "slots" in tree.members:
        yield "slots are counted: an id stays, whichever device is behind it"
        return
    source, id_leaf = tree.get_leaf("source"), tree.get_leaf("id")
    if id_leaf is None and source is not None and _is_one_node(source.value):
        yield "follows its path, which stays the same"
        return
    ids = id_leaf.value if id_leaf else _get_default_ids(get_source_kind(source.value) if source else "")
    alternatives = ids if isinstance(ids, list | tuple) else (ids,)
    for text in alternatives:
        follows = _find_stability(str(text), tree)
        if follows:
            yield f"{f'{format_value(text)} ' if len(alternatives) > 1 else ''}follows {follows}"


def _is_one_node(source: object) -> bool:
    path = source.get("node") if isinstance(source, dict) else None
    return isinstance(path, str) and not any(mark in path for mark in "*?[{")


def _get_default_ids(kind: str) -> tuple[str, ...]:
    return source_kinds.get_default_ids(kind) if kind in source_kinds.KINDS else ()


def _find_stability(text: str, tree: Branch) -> str:
    """Return what the most significant word of a template follows. Return an empty string for a template without
    such a word.
    """
    try:
        words = [piece.word for piece in parse(text).pieces if isinstance(piece, Slot)]
    except TemplateError:
        return ""
    last = {_find_telling_part(word, tree) for word in words}
    return next((follows for telling, follows in _FOLLOWS if telling & last), "")


def _find_telling_part(word: str, tree: Branch) -> str:
    """Return the last part of a word. For a derived word, only its type or its name is certain."""
    let = tree.get_branch("let")
    word_branch = let.get_branch(word) if let else None
    if word_branch is None:
        return word.rpartition(".")[2]
    return "address" if get_text(word_branch, "type") == "pci" else word if word in _FOLLOWS[0][0] else ""


_TOML = "  "  # indentation of TOML after the comment mark


def parse_notes(text: str) -> list[tuple[bool, str]]:
    """Return the pieces in order, each with a flag: True for TOML. A paragraph is one line. TOML keeps its lines."""
    pieces: list[tuple[bool, str]] = []
    for toml, line in _list_head_lines(text):
        if pieces and pieces[-1][0] == toml and line and pieces[-1][1]:
            pieces[-1] = (toml, f"{pieces[-1][1]}{chr(10) if toml else ' '}{line}")
        else:
            pieces.append((toml, line))
    return [piece for piece in pieces if piece[1]]


def _list_head_lines(text: str) -> Iterator[tuple[bool, str]]:
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        comment = line.removeprefix("#").removeprefix(" ")
        yield comment.startswith(_TOML), comment.removeprefix(_TOML).rstrip()


_SUBJECTS = ("takes", "words", "name", "id", "shares", "waits", "health", "gives", "prefers", "options", "besides")


class ClassManual(Struct):
    """A class, as its users need it.

    is_local: the class belongs to the configuration, not to the package.
    is_base_class: only other classes and entries use the class.
    source_text: its source, in words.
    sections: the description by subject in reading order, with the defaults.
    notes: advice and traps, as pieces of prose and of TOML. The flag means TOML.
    example: TOML to copy.
    """

    name: str
    about: str
    file: str
    is_local: bool
    is_base_class: bool
    source_text: str
    uses: tuple[str, ...]
    sections: tuple[tuple[str, str], ...]
    notes: tuple[tuple[bool, str], ...]
    example: str


def build_manual(study: LoadedConfig, name: str) -> ClassManual:
    """Return the manual of a class."""
    tree = study.library.get_class(name).tree
    rows = [
        (subject, "  " * max(0, text.level - (subject == "words")) + text.text)
        for subject, clauses in describe_sections(tree)
        for text in clauses
    ]
    rows += [("id", f"  {text}") for text in describe_id_stability(tree)]
    rows += _describe_defaults(tree, {subject for subject, _ in rows})
    ordered_sections = [
        (subject, text) for ordered_subject in _SUBJECTS for subject, text in rows if subject == ordered_subject
    ]
    about, uses = tree.get_leaf("about"), tree.get_leaf("uses")
    return ClassManual(
        name=name,
        about=format_value(about.value) if about else "",
        file=study.library.get_path(name),
        is_local=name in study.local_class_names,
        is_base_class="source" not in tree.members or tree.is_on("part"),
        source_text="" if "source" not in tree.members else ordered_sections[0][1].removeprefix("Every "),
        uses=tuple(map(format_value, uses.value)) if uses and isinstance(uses.value, list) else (),
        sections=tuple(_add_option_about(subject, text, tree) for subject, text in ordered_sections),
        notes=tuple(parse_notes(tree.spot.document.text)),
        example=_make_example(name, tree),
    )


def _describe_defaults(tree: Branch, described_subjects: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the defaults of the subjects that the class does not describe."""
    if "source" not in tree.members:
        return
    if "shares" not in described_subjects and "slots" not in tree.members:
        yield "shares", "not shared: one container has a device at a time"
    if "health" not in described_subjects:
        yield "health", "healthy while it is there"
    if "topology" not in tree.members and "slots" not in tree.members:
        yield "prefers", "the kubelet is told the NUMA node of each, where it has one"


def format_manual(class_manual: ClassManual, width: int | None) -> list[str]:
    """Return the manual as lines: subjects at the left, texts at the right."""
    rows = [
        ("file", class_manual.file),
        *((("uses", ", ".join(class_manual.uses)),) if class_manual.uses else ()),
        *class_manual.sections,
    ]
    rows += [("notes", f"{'  ' * toml}{line}") for toml, piece in class_manual.notes for line in piece.split("\n")]
    rows += [("example", line) for line in class_manual.example.splitlines()]
    lines = _fold(f"{class_manual.name}{f'   {class_manual.about}' if class_manual.about else ''}", "    ", width)
    previous_subject = ""
    for subject, text in rows:
        label = f"  {'' if subject == previous_subject else subject:10}  "
        indent = " " * (len(label) + len(text) - len(text.lstrip(" ")) + 2)
        lines += _fold(label + text, indent, width)
        previous_subject = subject
    return [line.rstrip() for line in lines]


def _fold(text: str, indent: str, width: int | None) -> list[str]:
    shown = escape(text)
    return [shown] if width is None or count_columns(shown) <= width else fold_text(shown, indent, width)


def _add_option_about(subject: str, text: str, tree: Branch) -> tuple[str, str]:
    """Return an option together with its `about` text."""
    name = text.split()[1] if subject == "options" and len(text.split()) > 1 else ""
    option = (tree.get_branch("options") or Branch({}, tree.spot)).get_branch(name.rstrip(","))
    about = option.get_leaf("about") if option else None
    return (
        subject,
        f"{text.removeprefix('option ')}{f': {format_value(about.value)}' if about else ''}" if name else text,
    )


def _make_example(name: str, tree: Branch) -> str:
    """Return a minimal entry that uses the class."""
    lines = ["[[resource]]"]
    is_part = "source" not in tree.members
    if is_part or tree.members.keys().isdisjoint(("name", "adds_to")):
        lines.append(f'name = "example.com/{name}"')
    if is_part:
        lines.append(f'uses = ["{name}"]  # beside a class or a source of yours')
    else:
        lines.append(f'class = "{name}"')
    for option_name, option in tree.list_branches("options"):
        if option.members.keys().isdisjoint(("default", "value")):
            lines.append(f"options.{option_name} = {_choose_example_value(option)}")
    return "\n".join(lines)


def _choose_example_value(option: Branch) -> str:
    """Return a value that the option accepts, as TOML."""
    for key, answer in (("one_of", '"{}"'), ("some_of", '["{}"]')):
        if (choices := option.get_leaf(key)) is not None and isinstance(choices.value, list) and choices.value:
            return answer.format(format_value(choices.value[0]))
    return "…"
