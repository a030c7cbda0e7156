"""Settings of `agent.toml`: the behaviour of the agent itself. Each field has the documented default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from agent.config.language.key_table import make_hint
from agent.config.language.path_rule import find_path_fault
from agent.config.language.value_checks import parse_duration
from agent.config.toml.document import Document
from agent.config.toml.file_position import FilePosition, TextPiece
from agent.config.toml.finding import Finding, find_nearest
from agent.core.entry.cdi import DIRECTORIES
from agent.core.entry.devinfo import DIRECTORY as DEVINFO
from agent.core.entry.query import ProbeSpec
from agent.core.struct import Struct, field

SOCKET_PATH_LIMIT = 107  # bytes in the path of a Unix socket
SOCKET_NAME_LENGTH = 40  # maximum length of the agent's own socket names (agent.kubelet.socket_file)

PROBE_SECONDS = 30.0  # that a probe may be silent
_PROBE = "probe"
DIRECTORY = "/etc/device-agent"


class KubeletSettings(Struct):
    """Paths of the kubelet, and the registration."""

    dir: str = "/var/lib/kubelet/device-plugins"
    registration: str = "socket"
    watcher_dir: str = "/var/lib/kubelet/plugins_registry"
    pod_resources: str = "/var/lib/kubelet/pod-resources/kubelet.sock"


class PathSettings(Struct):
    """Paths that the agent reads and writes."""

    resources: str = f"{DIRECTORY}/resources.d"
    classes: tuple[str, ...] = (f"{DIRECTORY}/classes", "/usr/share/device-agent/classes")
    state: str = "/var/lib/device-agent"
    control: str = "/run/device-agent/control.sock"
    cdi: tuple[str, ...] = DIRECTORIES
    devinfo: str = DEVINFO


class LookSettings(Struct):
    """Seconds between full rescans (`every`), and debounce time in seconds (`settle`)."""

    rescan_interval: float = 30.0
    debounce_time: float = 0.05


class ReloadSettings(Struct):
    """Automatic reload of the configuration."""

    watch: bool = False


class MetricsSettings(Struct):
    """The address of the metrics. An empty `listen` means no address. pods: metrics name the pods that use devices."""

    listen: str = ""
    max_devices: int = 512
    pods: bool = False


class LogSettings(Struct):
    """The log level."""

    level: str = "info"


# Keys of agent.toml whose field has another name.
FIELD_NAMES: Mapping[str, str] = MappingProxyType({"every": "rescan_interval", "settle": "debounce_time"})


class Settings(Struct):
    """All settings of agent.toml."""

    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    paths: PathSettings = field(default_factory=PathSettings)
    look: LookSettings = field(default_factory=LookSettings)
    reload: ReloadSettings = field(default_factory=ReloadSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    log: LogSettings = field(default_factory=LogSettings)
    probe: Mapping[str, ProbeSpec] = field(default_factory=dict)


# A reader returns the value of a field, or a finding.
_Reader: TypeAlias = Callable[[FilePosition, object], "str | int | float | tuple[str, ...] | Finding"]


def read_settings(document: Document) -> tuple[Settings, list[Finding]]:
    """Return the settings of a document and all findings. A faulty key has its default."""
    findings: list[Finding] = []
    sections: dict[str, Any] = {}
    root = FilePosition(document, ())
    for name, table in document.data.items():
        spot = root.get_child(name)
        if name not in _SECTIONS and name != _PROBE:
            findings.append(_make_unknown_section_error(spot, name))
        elif not isinstance(table, dict):
            findings.append(spot.make_error("type", f"{name} is a section: a table with its keys", f"write [{name}]"))
        elif name == _PROBE:
            sections[name] = _read_probes(spot, table, findings)
        else:
            sections[name] = _read_section(spot, name, table, findings)
    return Settings(**sections), findings


def _read_probes(spot: FilePosition, table: Mapping[str, object], findings: list[Finding]) -> dict[str, ProbeSpec]:
    """Return the probes for every entry. A faulty probe is left out."""
    probes: dict[str, ProbeSpec] = {}
    for name, probe_table in table.items():
        probe_spot = spot.get_child(name)
        if not isinstance(probe_table, dict):
            findings.append(
                probe_spot.make_error("type", "a probe is a table", f'write [probe.{name}] with run = ["/usr/bin/…"]')
            )
            continue
        finding_count = len(findings)
        values = _read_keys(probe_spot, "a probe", probe_table, _PROBE_READERS, findings)
        if "run" not in probe_table:
            message = f"probe.{name} does not say what is run"
            findings.append(probe_spot.make_error("missing", message, 'write run = ["/usr/bin/…"]', mark="key"))
        if len(findings) == finding_count:
            probes[name] = ProbeSpec(name, values["run"], values.get("timeout", PROBE_SECONDS))
    return probes


def _read_argv(spot: FilePosition, value: object) -> tuple[str, ...] | Finding:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        message = "run is a program and its arguments, each a text of its own"
        return spot.make_error("type", message, 'write ["/usr/bin/…", "…"]')
    program = _read_path(spot.get_child(0), value[0])
    return program if isinstance(program, Finding) else tuple(value)


def _read_section(spot: FilePosition, name: str, table: Mapping[str, object], findings: list[Finding]) -> object:
    make, readers = _SECTIONS[name]
    values = _read_keys(spot, f"[{name}]", table, readers, findings)
    return make(**{FIELD_NAMES.get(key, key): value for key, value in values.items()})


def _read_keys(
    spot: FilePosition,
    title: str,
    table: Mapping[str, object],
    readers: Mapping[str, _Reader],
    findings: list[Finding],
) -> dict[str, Any]:
    """Return the values of a table without those that have a fault."""
    values: dict[str, Any] = {}
    for key, written_value in table.items():
        key_spot = spot.get_child(key)
        if (reader := readers.get(key)) is None:
            message = f"{title} has no such key, and nothing unknown is ignored"
            findings.append(key_spot.make_error("unknown-key", message, make_hint(key, readers), mark="key"))
        elif isinstance(value := reader(key_spot, written_value), Finding):
            findings.append(value)
        else:
            values[key] = value
    return values


def _make_unknown_section_error(spot: FilePosition, name: str) -> Finding:
    if name in {"resource", "class"}:
        return spot.make_error(
            "unknown-key", "agent.toml is the agent, never a resource", "move it to a file in resources.d", mark="key"
        )
    nearest_section = find_nearest(name, (*_SECTIONS, _PROBE))
    owner = next((section for section, (_, readers) in _SECTIONS.items() if name in readers), None)
    write = f"nearest: {nearest_section}" if nearest_section else f"it belongs under [{owner}]" if owner else ""
    message = "agent.toml has no such section, and nothing unknown is ignored"
    return spot.make_error("unknown-key", message, write, mark="key")


def _read_path(spot: FilePosition, value: object) -> str | Finding:
    if not isinstance(value, str):
        return spot.make_error("type", "a path is text in quotes", 'write for example "/run/device-agent"')
    fault = find_path_fault(value)
    return spot.make_error("path", fault.message, fault.write, mark="text") if fault else value


def _read_socket_directory(spot: FilePosition, value: object) -> str | Finding:
    path = _read_path(spot, value)
    if isinstance(path, Finding):
        return path
    room = SOCKET_PATH_LIMIT - SOCKET_NAME_LENGTH - 1
    length = len(path.encode("utf-8", "surrogateescape"))
    if length <= room:
        return path
    message = (
        f"a socket's path has {SOCKET_PATH_LIMIT} bytes at most, our names in it {SOCKET_NAME_LENGTH}: {length} bytes"
    )
    return spot.make_error("socket-path", f"{message} are too many", f"at most {room}", mark="text")


def _read_socket(spot: FilePosition, value: object) -> str | Finding:
    path = _read_path(spot, value)
    if isinstance(path, Finding) or len(path.encode("utf-8", "surrogateescape")) <= SOCKET_PATH_LIMIT:
        return path
    return spot.make_error(
        "socket-path", f"a socket's path has {SOCKET_PATH_LIMIT} bytes at most", "take a shorter one", mark="text"
    )


def _read_paths(spot: FilePosition, value: object) -> tuple[str, ...] | Finding:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return spot.make_error("type", "a list of paths is wanted", _suggest_list(value))
    for index, item in enumerate(value):
        path = _read_path(spot.get_child(index), item)
        if isinstance(path, Finding):
            return path
    return tuple(value)


def _make_duration_reader(minimum: str, maximum: str, default: str) -> _Reader:
    def reader(spot: FilePosition, value_text: object) -> float | Finding:
        if not isinstance(value_text, str):
            number = isinstance(value_text, int) and not isinstance(value_text, bool)
            return spot.make_error(
                "type", "a duration is text with its unit", f'write "{value_text}s"' if number else f'write "{default}"'
            )
        value = parse_duration(value_text)
        if value is None or value <= 0:
            message = "a duration is a number above 0 and ms, s, m, h or d"
            return spot.make_error("type", message, f'write for example "{default}"')
        if not (parse_duration(minimum) or 0) <= value <= (parse_duration(maximum) or 0):
            return spot.make_error("type", f"this is from {minimum} to {maximum}", f'write for example "{default}"')
        return value

    return reader


def _make_choice_reader(*choices: str) -> _Reader:
    def reader(spot: FilePosition, value: object) -> str | Finding:
        if isinstance(value, str) and value in choices:
            return value
        nearest_choice = find_nearest(value, choices) if isinstance(value, str) else None
        return spot.make_error(
            "type", f"one of {', '.join(choices)} is wanted", f'write "{nearest_choice or choices[0]}"'
        )

    return reader


def _read_switch(spot: FilePosition, value: object) -> bool | Finding:
    return (
        value
        if isinstance(value, bool)
        else spot.make_error("type", "true or false is wanted, without quotes", "write true or false")
    )


def _read_count(spot: FilePosition, value: object) -> int | Finding:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1_000_000:
        return value
    return spot.make_error("type", "a whole number from 0 is wanted", "write for example 512")


def _read_listen(spot: FilePosition, value: object) -> str | Finding:
    """Return an empty text, an address with a port, or the path of a socket. Else return a finding."""
    if isinstance(value, str):
        address = _ADDRESS.fullmatch(value)
        if not value or (address and 0 < int(address[1]) < 65536):
            return value
        if value.startswith("unix:"):
            path = value.removeprefix("unix:")
            fault = find_path_fault(path)
            if fault:
                return spot.make_error("path", fault.message, fault.write, mark=TextPiece(5, len(path)))
            return value
    return spot.make_error("type", "an address with its port, or a socket", 'write "127.0.0.1:9460" or "unix:/run/…"')


def _suggest_list(value: object) -> str:
    return f'write ["{value}"]' if isinstance(value, str) else ""


_ADDRESS = re.compile(r"(?:[A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")

_SECTIONS: Mapping[str, tuple[Callable[..., object], Mapping[str, _Reader]]] = {
    "kubelet": (
        KubeletSettings,
        {
            "dir": _read_socket_directory,
            "registration": _make_choice_reader("socket", "watcher"),
            "watcher_dir": _read_socket_directory,
            "pod_resources": _read_socket,
        },
    ),
    "paths": (
        PathSettings,
        {
            "resources": _read_path,
            "classes": _read_paths,
            "state": _read_path,
            "control": _read_socket,
            "cdi": _read_paths,
            "devinfo": _read_path,
        },
    ),
    "look": (
        LookSettings,
        {"every": _make_duration_reader("10ms", "1d", "30s"), "settle": _make_duration_reader("1ms", "10s", "50ms")},
    ),
    "reload": (ReloadSettings, {"watch": _read_switch}),
    "metrics": (MetricsSettings, {"listen": _read_listen, "max_devices": _read_count, "pods": _read_switch}),
    "log": (LogSettings, {"level": _make_choice_reader("debug", "info", "warning", "error")}),
}
_PROBE_READERS: Mapping[str, _Reader] = {"run": _read_argv, "timeout": _make_duration_reader("100ms", "1d", "30s")}
