"""Load the complete configuration of a node from its directory, with all findings."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agent.config.agent_toml import read_agent_toml
from agent.config.compile import check_class, compile_entry
from agent.config.entry_conflicts import ConfigEntry, find_conflicts
from agent.config.language.key_table import find_unknown_key, make_hint
from agent.config.merge.class_library import ClassLibrary, Folder
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
    """The configuration of a directory. `resources` are those of files without errors, in file order.

    files: the files read, by display name. digest: six hexadecimal digits that change with every file.
    """

    settings: Settings
    resources: tuple[ResourceSpec, ...]
    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    digest: str

    @property
    def is_valid(self) -> bool:
        """Return whether there is no error."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


class LoadedConfig(Struct):
    """A configuration with its library and entries.

    local_class_names: the names of classes that are not part of the program.
    """

    configuration: Configuration
    library: ClassLibrary
    entries: tuple[ConfigEntry, ...]
    local_class_names: tuple[str, ...]


def load(
    directory: str, *, classes: Sequence[str] = (SHIPPED,), active_settings: Settings | None = None
) -> Configuration:
    """Load the configuration of a directory. No content raises an exception: every error is a finding.

    Args:
        directory: the directory of agent.toml.
        classes: more directories of classes, after those of agent.toml.
        active_settings: the settings of the running agent. If set, they apply instead of those of agent.toml.
    """
    return load_with_entries(directory, classes=classes, active_settings=active_settings).configuration


def load_with_entries(
    directory: str, *, classes: Sequence[str] = (SHIPPED,), active_settings: Settings | None = None
) -> LoadedConfig:
    """Load a configuration as `load` does, with the merged entries and the library."""
    directory = os.path.abspath(directory)
    files = ConfigFiles(directory)
    findings: list[Finding] = []
    current_settings = read_agent_toml(files, findings)
    settings = current_settings if active_settings is None else active_settings
    class_directories = settings.paths.classes
    library = ClassLibrary(_make_folders(settings, classes), files, findings)
    merged_entries = [
        entry
        for name in files.list_files(settings.paths.resources)
        if (document := files.read_document(os.path.join(settings.paths.resources, name))) is not None
        for entry in _merge_entries(document, library, findings)
    ]
    # Merge all entries before the first is compiled, because a join may name a later entry.
    entries = [
        replace(
            entry,
            spec=compile_entry(
                entry.merged_entry, entry.spot, settings.kubelet.registration, findings, probes=settings.probe
            ),
        )
        for entry in merged_entries
    ]
    local_class_names = tuple(
        name for name in sorted(library.list_names()) if library.get_folder(name) in class_directories
    )
    for name in local_class_names:
        merged_class = library.get_class(name)
        check_class(merged_class, merged_class.tree.spot, findings, probes=settings.probe)
    findings += _find_name_conflicts(entries)
    faulty_files = {finding.file for finding in findings if finding.severity is Severity.ERROR}
    findings += find_conflicts([entry for entry in entries if not entry.merged_entry.files & faulty_files])
    # A text that is compiled more than once can have the same fault with another hint.
    unique_findings: dict[Finding, Finding] = {}
    for finding in (*files.findings, *findings):
        unique_findings.setdefault(replace(finding, write=""), finding)
    all_findings = tuple(sort_findings(unique_findings.values()))
    refused_files = {finding.file for finding in all_findings if finding.severity is Severity.ERROR}
    resources = [entry.spec for entry in entries if entry.spec and not entry.merged_entry.files & refused_files]
    configuration = Configuration(
        current_settings, _apply_owner_settings(resources), all_findings, tuple(files.names), files.digest
    )
    return LoadedConfig(configuration, library, tuple(entries), local_class_names)


def list_class_folders(files: ConfigFiles, findings: list[Finding]) -> list[Folder]:
    """Return the directories of classes for the configuration of these files. The classes of the program are last."""
    return _make_folders(read_agent_toml(files, findings), (SHIPPED,))


def _make_folders(settings: Settings, classes: Sequence[str]) -> list[Folder]:
    return [*map(Folder, settings.paths.classes), *(Folder(path, "classes") for path in classes)]


def _merge_entries(document: Document, library: ClassLibrary, findings: list[Finding]) -> list[ConfigEntry]:
    """Return the merged entries of one file, in its order."""
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
            entry_spot = spot.get_child(index)
            entries.append(ConfigEntry(library.merge_entry(entry_spot, table, "entry"), entry_spot, None))
    return entries


def _find_name_conflicts(entries: Sequence[ConfigEntry]) -> list[Finding]:
    """Return a finding for each repeated name, and for each `adds_to` without an earlier entry of that name."""
    name_spots: dict[str, FilePosition] = {}
    findings: list[Finding] = []
    for entry in entries:
        leaf = get_name_leaf(entry.merged_entry.tree)
        if leaf is None or not isinstance(leaf.value, str):
            continue
        spot = _find_name_spot(leaf, entry.spot)
        mark: FindingMark = "text" if spot is leaf.spot else "value"
        if leaf is entry.merged_entry.tree.get_leaf("adds_to"):
            if leaf.value not in name_spots:
                message, write = _explain_missing_owner(leaf.value, entries)
                findings.append(spot.make_error("adds-to", message, write, mark=mark))
        elif leaf.value not in name_spots:
            name_spots[leaf.value] = spot
        else:
            message = f"{leaf.value} is defined at {name_spots[leaf.value].origin}; a name has one definition"
            write = f'to add to it: adds_to = "{leaf.value}"'
            findings.append(spot.make_error("duplicate-name", message, write, mark=mark))
    return findings


def _explain_missing_owner(name: str, entries: Sequence[ConfigEntry]) -> tuple[str, str]:
    """Return the reason why an entry cannot add to a resource with this name, and the correction."""
    spots_by_name: dict[str, FilePosition] = {}
    for entry in entries:
        leaf = entry.merged_entry.tree.get_leaf("name")
        if leaf is not None and isinstance(leaf.value, str):
            spots_by_name.setdefault(leaf.value, entry.spot)
    if name in spots_by_name:
        return f"{name} is defined only later, at {spots_by_name[name].origin}", "put this entry behind it"
    return f"no entry before this has the name {name}", make_hint(name, spots_by_name)


def _apply_owner_settings(resources: Sequence[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    """Return the specs. A spec that adds to a resource gets the settings of the first entry of that resource.

    If the first entry has an error, the specs that add to it are left out.
    """
    owners: dict[str, ResourceSpec] = {}
    specs: list[ResourceSpec] = []
    for spec in resources:
        if not spec.is_addition:
            owners.setdefault(spec.name, spec)
            specs.append(spec)
        elif (owner := owners.get(spec.name)) is not None:
            topology = () if owner.slots else spec.topology
            registration = owner.registration
            specs.append(
                replace(
                    spec,
                    slots=owner.slots,
                    limit=owner.limit,
                    expect=None,
                    topology=topology,
                    registration=registration,
                    prefer=_select_prefer_rules(owner, spec),
                )
            )
    return tuple(specs)


def _select_prefer_rules(owner: ResourceSpec, spec: ResourceSpec) -> tuple[PreferRule, ...]:
    """Return the `prefer` rules of a resource that apply to devices of an additional entry."""
    return tuple(rule for rule in owner.prefer if rule in spec.prefer or _is_applicable(rule, spec))


def _is_applicable(rule: PreferRule, spec: ResourceSpec) -> bool:
    """Return whether a rule applies to the devices of an entry that does not contain the rule."""
    if isinstance(rule, DistanceRule):
        return rule.links is None
    try:
        return rule.word in spec.derived_words or bool(source_kinds.get_word_type(spec.source.kind, rule.word))
    except (source_kinds.UnknownWordError, PatternError):
        return False


def _find_name_spot(leaf: Leaf, entry: FilePosition) -> FilePosition:
    """Return the position of the name in the file of the entry. If a class has the name, return the entry header."""
    return leaf.spot if leaf.spot.document is entry.document else entry
