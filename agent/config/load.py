"""Loading: the whole configuration of a node from its directory, with everything that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agent.config import entry_conflicts
from agent.config.agent_toml import read_agent_toml
from agent.config.compile import check_class, compile_entry
from agent.config.language.key_table import find_unknown_key, make_hint
from agent.config.merge.class_library import ClassLibrary, Folder, MergedEntry
from agent.config.merge.config_tree import Leaf
from agent.config.resource.name_template import get_name_leaf
from agent.config.settings import Settings
from agent.config.toml.document import Document
from agent.config.toml.file_position import FilePosition, FindingMark
from agent.config.toml.files import ConfigFiles
from agent.config.toml.finding import Finding, Severity, sort_findings
from agent.core.entry.prefer import DistanceRule, PreferRule
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.language.glob import PatternError
from agent.core.struct import Struct, replace
from agent.scanners import source_kinds

SHIPPED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "classes")


class Configuration(Struct):
    """What a directory says. `resources` are those of files without errors, in file order.

    files: the files read, as people know them. digest: six hexadecimal digits that change with any of them.
    """

    settings: Settings
    resources: tuple[ResourceSpec, ...]
    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    digest: str

    @property
    def is_valid(self) -> bool:
        """Whether there is no error."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


class ConfigEntry(Struct):
    """One `[[resource]]`, merged, with its spec if it has one."""

    merged_entry: MergedEntry
    spot: FilePosition
    spec: ResourceSpec | None


class LoadedConfig(Struct):
    """A configuration with all that it was made from. `own`: the names of classes that do not come with the program."""

    configuration: Configuration
    library: ClassLibrary
    entries: tuple[ConfigEntry, ...]
    local_class_names: tuple[str, ...]


def load(
    directory: str, *, classes: Sequence[str] = (SHIPPED,), active_settings: Settings | None = None
) -> Configuration:
    """The configuration in a directory. Never raises for what is in it or not: everything wrong is a finding.

    Args:
        directory: where agent.toml is.
        classes: directories of classes that are looked in after those of agent.toml.
        active_settings: the settings of the running agent. If set, they apply instead of those of agent.toml.
    """
    return load_with_entries(directory, classes=classes, active_settings=active_settings).configuration


def load_with_entries(
    directory: str, *, classes: Sequence[str] = (SHIPPED,), active_settings: Settings | None = None
) -> LoadedConfig:
    """As `load`, with the sentences that the resources were compiled from."""
    directory = os.path.abspath(directory)
    files = ConfigFiles(directory)
    findings: list[Finding] = []
    said = read_agent_toml(files, findings)
    known = said if active_settings is None else active_settings
    own = known.paths.classes
    shelf = ClassLibrary(_folders(known, classes), files, findings)
    said_entries = [
        entry
        for name in files.list_files(known.paths.resources)
        if (document := files.read_document(os.path.join(known.paths.resources, name))) is not None
        for entry in _entries(document, shelf, findings)
    ]
    # All are said before one is compiled: a join may be of a later one.
    entries = [
        replace(
            entry,
            spec=compile_entry(
                entry.merged_entry, entry.spot, known.kubelet.registration, findings, probes=known.probe
            ),
        )
        for entry in said_entries
    ]
    own_names = tuple(name for name in sorted(shelf.list_names()) if shelf.get_folder(name) in own)
    for name in own_names:
        sentence = shelf.get_class(name)
        check_class(sentence, sentence.tree.spot, findings, probes=known.probe)
    findings += _duplicates(entries)
    wrong = {finding.file for finding in findings if finding.severity is Severity.ERROR}
    findings += entry_conflicts.find_conflicts([entry for entry in entries if not entry.merged_entry.files & wrong])
    found = tuple(sort_findings(dict.fromkeys((*files.findings, *findings))))
    bad = {finding.file for finding in found if finding.severity is Severity.ERROR}
    resources = [entry.spec for entry in entries if entry.spec and not entry.merged_entry.files & bad]
    configuration = Configuration(said, _joined(resources), found, tuple(files.names), files.digest)
    return LoadedConfig(configuration, shelf, tuple(entries), own_names)


def list_class_folders(files: ConfigFiles, findings: list[Finding]) -> list[Folder]:
    """The directories of classes that the configuration of these files looks in, the shipped one last."""
    return _folders(read_agent_toml(files, findings), (SHIPPED,))


def _folders(known: Settings, classes: Sequence[str]) -> list[Folder]:
    return [*map(Folder, known.paths.classes), *(Folder(path, "classes") for path in classes)]


def _entries(document: Document, shelf: ClassLibrary, findings: list[Finding]) -> list[ConfigEntry]:
    """The entries of one file, in its order."""
    entries: list[ConfigEntry] = []
    root = FilePosition(document, ())
    for key, value in document.data.items():
        spot = root.get_child(key)
        finding = find_unknown_key(spot, "file")
        if finding is not None:
            findings.append(finding)
            continue
        tables = value if isinstance(value, list) else [value]
        if not isinstance(value, list) or not all(isinstance(table, dict) for table in tables):
            findings.append(spot.make_error("type", "resources are a list of tables", "write [[resource]]"))
            continue
        for index, table in enumerate(tables):
            here = spot.get_child(index)
            entries.append(ConfigEntry(shelf.merge_entry(here, table, "entry"), here, None))
    return entries


def _duplicates(entries: Sequence[ConfigEntry]) -> list[Finding]:
    """A finding for each name that an earlier entry has, and for each that an entry adds to and none before it has."""
    first: dict[str, FilePosition] = {}
    findings: list[Finding] = []
    for entry in entries:
        leaf = get_name_leaf(entry.merged_entry.tree)
        if leaf is None or not isinstance(leaf.value, str):
            continue
        spot = _own(leaf, entry.spot)
        mark: FindingMark = "text" if spot is leaf.spot else "value"
        if leaf is entry.merged_entry.tree.get_leaf("adds_to"):
            if leaf.value not in first:
                message, write = _nothing_to_add_to(leaf.value, entries)
                findings.append(spot.make_error("adds-to", message, write, mark=mark))
        elif leaf.value not in first:
            first[leaf.value] = spot
        else:
            message = f"{leaf.value} is defined at {first[leaf.value].origin}; a name has one definition"
            write = f'to add to it: adds_to = "{leaf.value}"'
            findings.append(spot.make_error("duplicate-name", message, write, mark=mark))
    return findings


def _nothing_to_add_to(name: str, entries: Sequence[ConfigEntry]) -> tuple[str, str]:
    """Why nothing can be added to a resource of that name here, and what to write."""
    named: dict[str, FilePosition] = {}
    for entry in entries:
        leaf = entry.merged_entry.tree.get_leaf("name")
        if leaf is not None and isinstance(leaf.value, str):
            named.setdefault(leaf.value, entry.spot)
    if name in named:
        return f"{name} is defined only later, at {named[name].origin}", "put this entry behind it"
    return f"no entry before this has the name {name}", make_hint(name, named)


def _joined(resources: Sequence[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    """The entries, each that adds to a resource with what is said of that resource; those whose first one has an error
    are left out with it.
    """
    first: dict[str, ResourceSpec] = {}
    made: list[ResourceSpec] = []
    for spec in resources:
        if not spec.is_addition:
            first.setdefault(spec.name, spec)
            made.append(spec)
        elif (owner := first.get(spec.name)) is not None:
            topology = () if owner.slots else spec.topology
            registration = owner.registration
            made.append(
                replace(
                    spec,
                    slots=owner.slots,
                    limit=owner.limit,
                    expect=None,
                    topology=topology,
                    registration=registration,
                    prefer=_preferred(owner, spec),
                )
            )
    return tuple(made)


def _preferred(owner: ResourceSpec, spec: ResourceSpec) -> tuple[PreferRule, ...]:
    """By which of a resource's rules what another entry adds to it can be told apart."""
    return tuple(rule for rule in owner.prefer if rule in spec.prefer or _is_known(rule, spec))


def _is_known(rule: PreferRule, spec: ResourceSpec) -> bool:
    """Whether a rule can be asked of the devices of an entry that does not say it."""
    if isinstance(rule, DistanceRule):
        return rule.links is None
    try:
        return rule.word in spec.derived_words or bool(source_kinds.get_word_type(spec.source.kind, rule.word))
    except (source_kinds.UnknownWordError, PatternError):
        return False


def _own(leaf: Leaf, entry: FilePosition) -> FilePosition:
    """Where an entry's name is in its own file: its header, if a class has the name."""
    return leaf.spot if leaf.spot.document is entry.document else entry
