"""Templates of device IDs, with warnings for words that the kernel can assign to another device."""

from __future__ import annotations

from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope, WordSignature
from agent.config.sources import find_unstable_pattern
from agent.config.toml.file_position import FilePosition, TextPiece
from agent.config.values.templates import CompiledTemplate, compile_template
from agent.core.entry.resource_spec import Slots, Source
from agent.core.language.template import parse
from agent.core.language.value import ValueType
from agent.scanners import source_kinds

# Words whose value the kernel can assign to another device, and when.
_REASSIGNED_WORDS = {
    "minor": "at each driver load",
    "major": "at each driver load",
    "card": "at each boot",
    "render": "at each boot",
    "render_minor": "at each boot",
    "uverbs": "at each boot",
    "uio": "at each boot",
    "bus": "at each boot",
    "devnum": "at each plug",
    "group": "at each boot",
}
# USB words that begin with a bus number. They are safe after a template with the location of the controller.
_BUS_WORDS = frozenset({"port", "hub"})
_REASSIGNED_NAMES = frozenset(
    {"subsystem", "net", "infiniband", "drm", "auxiliary"}
)  # sources whose names the kernel assigns in order of appearance
_SINGLE_VALUE_HINT = "make it a word of one value, by let"
_NAMES = frozenset(
    {"name", "node", "below_dev"}
)  # names of the kernel; some sources number them in order of appearance


def compile_ids(
    tree: Branch, scope: Scope, spot: FilePosition, user_spot: FilePosition | None, slots: Slots | None
) -> tuple[CompiledTemplate, ...]:
    """Return the templates of a device ID, best first. The default is that of the source. Slots need no ID.

    An entry without any template is a fault, reported at `spot`. user_spot: as in `compile_options`. The users of a
    class that is only a part add the ID.
    """
    leaf = tree.get_leaf("id")
    if leaf is None:
        required = scope.has_all_keys and (user_spot is not None or not tree.is_on("part"))
        return () if slots else _make_default_ids(tree, scope, spot, required=required)
    elements = leaf.spot.list_elements(leaf.value)
    if not elements:
        scope.report_error(leaf.spot, "type", "an empty list names nothing", 'write for example "{pci.address}"')
    phrases = [compile_template(item_spot, item, scope, "an id") for item_spot, item in elements]
    templates = tuple(template for template in phrases if template is not None)
    has_location = False
    for template in templates:
        if template.is_list:
            scope.report_error(
                template.spot, "type", "an id is one text, and this has a list in it", _SINGLE_VALUE_HINT, mark="text"
            )
            return ()
        _warn_of_unstable_words(template, scope, has_location=has_location)
        has_location = has_location or any(
            slot.word.rpartition(".")[2] == "path_id" for slot in template.template.slots
        )
    if (
        len(templates) == len(phrases)
        and templates
        and scope.source
        and not scope.is_single
        and not any(template.signatures for template in templates)
    ):
        message = "no word of the device is in it, so all devices would have one id"
        write = f'write "{templates[0].template.source}-{_find_stable_id(scope.source) or "{path_id}"}"'
        scope.report_error(templates[0].spot, "differs-between-devices", message, write, mark="text")
    return templates


def compute_shortest_id(ids: tuple[CompiledTemplate, ...], source: Source) -> int:
    """Return the smallest number of characters of an ID: the literal text and the shortest values of its words."""
    if not ids:
        return 1
    return max(1, min(_compute_length(template, source) for template in ids))


def _make_default_ids(
    tree: Branch, scope: Scope, spot: FilePosition, *, required: bool
) -> tuple[CompiledTemplate, ...]:
    """Return the default ID templates of the source."""
    if scope.source is None:
        return ()
    texts = source_kinds.get_default_ids(scope.source.kind)
    if not texts and required:
        message = f"a device of {scope.source} has no id of its own, so the entry says it"
        scope.report_error(spot, "missing", message, 'write for example id = "{path_id}"')
    pattern = find_unstable_pattern(scope.source)
    source = tree.get_leaf("source")
    if pattern is not None and source is not None:
        message = f"{pattern} is numbered as things appear: after a replug a pod may return to another device"
        mark = _find_pattern_position(source, pattern)
        scope.report_warning(mark, "unstable-id", message, 'write for example id = "{path_id}"', mark="text")
    return tuple(CompiledTemplate(parse(text), _find_signatures(text, scope.source), spot) for text in texts)


def _find_signatures(text: str, source: Source) -> tuple[WordSignature, ...]:
    signatures = [source_kinds.get_word_type(source.kind, slot.word) for slot in parse(text).slots]
    return tuple(WordSignature(word.kind, word.is_list) for word in signatures)


def _find_pattern_position(leaf: Leaf, pattern: str) -> FilePosition:
    """Return the file position of a pattern of a node source."""
    node = leaf.value["node"] if isinstance(leaf.value, dict) else None
    spot = leaf.spot.get_child("node")
    return spot.get_child(node.index(pattern)) if isinstance(node, list) else spot


def _warn_of_unstable_words(template: CompiledTemplate, scope: Scope, *, has_location: bool) -> None:
    """Warn of words that the kernel can assign to another device. has_location: an earlier template contains the
    location.
    """
    source = scope.source
    if source is None:
        return
    has_unstable_names = source.kind in _REASSIGNED_NAMES or find_unstable_pattern(source) is not None
    derived_words = frozenset(scope.entry_words.list_names() if scope.entry_words else ())
    for slot in template.template.slots:
        if slot.word in derived_words:
            continue  # a derived word with the name of such a word
        relation, _, word = slot.word.rpartition(".")
        reassignment = _REASSIGNED_WORDS.get(word)
        if word in _BUS_WORDS and not has_location and (relation or source.kind).rpartition(".")[2] == "usb":
            reassignment = "at each boot, if there are several USB controllers"
        if reassignment is None and word in _NAMES and not relation and has_unstable_names:
            reassignment = "as things appear"
        if reassignment is None or relation.startswith("udev"):
            continue
        message = f"{slot.word} is dealt anew {reassignment}: a pod may return to another device"
        stable = _find_stable_id(source)
        write = f'write "{stable}"' if stable else 'write for example "{path_id}"'
        if word in _BUS_WORDS:
            above = "parent." if word == "hub" else ""
            write = f'write for example "{{{relation}{"." * bool(relation)}{above}path_id}}", and this after it'
        mark = TextPiece(slot.at, len(slot.word) + 2 + sum(len(name) + 1 for name in slot.filters))
        scope.report_warning(template.spot, "unstable-id", message, write, mark=mark)


def _find_stable_id(source: Source) -> str:
    """Return a default template of the source that stays the same, or an empty string."""
    texts = () if find_unstable_pattern(source) else source_kinds.get_default_ids(source.kind)
    return texts[0] if texts else ""


_LEAST = {ValueType.PCI: 12, ValueType.CLASS: 6, ValueType.PATH: 6, ValueType.BOOL: 4}


def _compute_length(template: CompiledTemplate, source: Source) -> int:
    literal = sum(len(piece) for piece in template.template.pieces if isinstance(piece, str))
    words = zip(template.template.slots, template.signatures, strict=True)
    return literal + sum(_compute_least_length(slot.word, word, source) for slot, word in words)


def _compute_least_length(word: str, signature: WordSignature, source: Source) -> int:
    if word == "below_dev":
        return min(len(path) for path in source.arguments) - len("/dev/")
    return _LEAST.get(signature.kind, 1)
