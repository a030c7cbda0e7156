"""Sources: the `source` key of an entry."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.config.language.key_table import PLACES, SOURCE_KINDS, find_unknown_key, make_hint
from agent.config.language.path_rule import find_path_fault
from agent.config.language.value_checks import parse_duration
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope, require_all
from agent.config.toml.file_position import FilePosition
from agent.core.entry.resource_spec import Source
from agent.core.language import glob
from agent.core.language.template import has_control

# Names that the kernel numbers by order of appearance. The number can change after a reboot or replug.
_UNSTABLE_NAME = re.compile(
    r"(?:ttyUSB|ttyACM|video|media|v4l-subdev|hidraw|event|mouse|js|card|render|controlC|pcmC|midiC|sd|sg|sr|st|nst|nvme|nbd"
    r"|dri|lp|usbmon|hiddev|accel|i2c-|iio:device|cec|dvb|adapter|uio|vfio|mei|rtc|watchdog|ptp|pps)"
)
_SUBSYSTEM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
MIN_INTERVAL = 0.1  # seconds

_FORMS = [key for key in PLACES["source"].keys if key != "every"]


def compile_source(leaf: Leaf, scope: Scope) -> Source | None:
    """Return the source of an entry, or None with findings."""
    table = leaf.value
    if not isinstance(table, dict):
        scope.report_error(leaf.spot, "type", "source is a kind, or a table that says where to look", 'write "pci"')
        return None
    faults = [finding for key in table if (finding := find_unknown_key(leaf.spot.get_child(key), "source"))]
    for finding in faults:
        scope.report(finding)
    if faults:
        return None
    forms = [key for key in table if key in _FORMS]
    if len(forms) != 1:
        message = f"source says one of {', '.join(_FORMS)}"
        write = f"keep {forms[0]}, and take out {', '.join(forms[1:])}" if forms else 'write for example source = "pci"'
        scope.report_error(leaf.spot, "type", message if forms else f"{message}, and this none", write)
        return None
    return _compile_form(leaf.spot.get_child(forms[0]), forms[0], table[forms[0]], scope)


def get_source_kind(table: object) -> str:
    """Return the kind of a `source` value without any check, or an empty string if it has none."""
    items = table.items() if isinstance(table, dict) else ()
    return next((str(value) if form == "kind" else form for form, value in items if form in _FORMS), "")


def is_single(source: Source) -> bool:
    """Return whether the source has at most one device: a literal path of a node or directory, or one fixed name."""
    if source.kind not in {"node", "dir", "fixed"} or len(source.arguments) != 1:
        return False
    return source.kind == "fixed" or glob.parse(source.arguments[0], allow_captures=True).is_literal


def find_unstable_pattern(source: Source) -> str | None:
    """Return a pattern of a node source whose names depend on the order of appearance, or None."""
    if source.kind != "node" or is_single(source):
        return None
    return next((path for path in source.arguments if _UNSTABLE_NAME.match(path.rpartition("/")[2])), None)


def compile_interval(tree: Branch, scope: Scope) -> float | None:
    """Return the seconds between two searches of a source, beside its events. Return None if the key is missing."""
    leaf = tree.get_leaf("source")
    table = leaf.value if leaf else None
    if leaf is None or not isinstance(table, dict) or "every" not in table:
        return None
    value_text, spot = table["every"], leaf.spot.get_child("every")
    value = parse_duration(value_text) if isinstance(value_text, str) else None
    if value is not None and value >= MIN_INTERVAL:
        return value
    message = f"how often to look is a duration of {MIN_INTERVAL:g} s at least: each time costs a look at the source"
    scope.report_error(spot, "type", message, 'write for example "5s"')
    return None


def _compile_form(spot: FilePosition, form: str, value: object, scope: Scope) -> Source | None:
    match form:
        case "kind":
            return _compile_kind(spot, value, scope)
        case "subsystem":
            if isinstance(value, str) and _SUBSYSTEM.fullmatch(value):
                return Source("subsystem", (value,))
            message = "a subsystem is one name, as under /sys/class or /sys/bus"
            scope.report_error(spot, "type", message, 'write for example "video4linux"')
            return None
    elements = spot.list_elements(value)
    compile_item, example = _LISTS[form]
    if not elements:
        scope.report_error(spot, "type", "an empty list has no device", f'write for example "{example}"')
        return None
    arguments = [compile_item(item_spot, item, scope) for item_spot, item in elements]
    duplicate_at = next(
        (at for at, argument in enumerate(arguments) if argument is not None and argument in arguments[:at]), None
    )
    if duplicate_at is not None:
        scope.report_error(elements[duplicate_at][0], "twice", "this stands here twice", "leave one of them out")
        return None
    compiled_arguments = require_all(arguments)
    return Source(form, compiled_arguments) if compiled_arguments else None


def _compile_kind(spot: FilePosition, value: object, scope: Scope) -> Source | None:
    if not isinstance(value, str):
        scope.report_error(spot, "type", "a kind of source is text", 'write "pci"')
        return None
    if value in SOURCE_KINDS:
        return Source(value)
    if value in _FORMS:
        scope.report_error(spot, "type", f"{value} needs to be told where", f"write {{ {value} = … }}", mark="text")
    elif value.startswith("/dev/"):
        scope.report_error(spot, "type", "a path is a node source", f'write {{ node = "{value}" }}', mark="text")
    else:
        message = f"no source has this name; there are {', '.join(SOURCE_KINDS)}, subsystem, node, dir and fixed"
        scope.report_error(spot, "type", message, make_hint(value, SOURCE_KINDS), mark="text")
    return None


def _compile_node(spot: FilePosition, value: object, scope: Scope) -> str | None:
    """Return a glob of device nodes, or None with a finding."""
    path = _compile_path(spot, value, scope, ("/dev/",), "/dev/kvm")
    if path is not None and not path.startswith("/dev/"):
        name = path.rpartition("/")[2]
        write = f'write "/dev/{name}"' if name not in {"", "dev"} else 'write for example "/dev/kvm"'
        scope.report_error(spot, "path", "device nodes are under /dev", write, mark="text")
        return None
    return path


def _compile_directory(spot: FilePosition, value: object, scope: Scope) -> str | None:
    """Return a glob of directories of the kernel, or None with a finding."""
    path = _compile_path(spot, value, scope, ("/sys/", "/proc/", "/dev/"), "/sys/class/npu/npu*")
    if path is not None and not path.startswith(("/sys/", "/proc/")):
        write = (
            f'write {{ node = "{path}" }}' if path.startswith("/dev/") else 'write for example "/sys/class/npu/npu*"'
        )
        scope.report_error(spot, "path", "directories are looked for under /sys and /proc", write, mark="text")
        return None
    return path


def _compile_path(spot: FilePosition, value: object, scope: Scope, below: Sequence[str], example: str) -> str | None:
    """Return a glob of paths, or None with a finding. below, example: for the correction."""
    if not isinstance(value, str):
        scope.report_error(spot, "type", "a pattern is text", f'write "{spot.source_text}"')
        return None
    if scope.parse_text(spot, "glob", lambda: glob.parse(value, allow_captures=True)) is None:
        return None
    fault = find_path_fault(value, below=below, example=example)
    if fault is not None:
        scope.report_error(spot, "path", fault.message, fault.write, mark="text")
        return None
    return value


def _compile_fixed_name(spot: FilePosition, value: object, scope: Scope) -> str | None:
    """Return the name of a device that always exists, or None with a finding."""
    if isinstance(value, str) and value and not has_control(value):
        return value
    scope.report_error(spot, "type", "what is always there has a name: text", 'write for example "slot-a"')
    return None


_LISTS = {
    "node": (_compile_node, "/dev/kvm"),
    "dir": (_compile_directory, "/sys/class/npu/npu*"),
    "fixed": (_compile_fixed_name, "slot-a"),
}
