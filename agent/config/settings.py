"""`agent.toml`: what the agent itself does, never a resource. Frozen; every field's default is the documented one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from agent.config.language import durations
from agent.config.language.key_table import make_hint
from agent.config.language.path_rule import find_path_fault
from agent.config.toml.document import Document
from agent.config.toml.file_position import FilePosition, TextPiece
from agent.config.toml.finding import Finding, find_nearest
from agent.core.entry.cdi import DIRECTORIES
from agent.core.entry.devinfo import DIRECTORY as DEVINFO
from agent.core.entry.query import ProbeSpec
from agent.core.struct import Struct, field

SOCKET_PATH_LIMIT = 107  # bytes of a Unix socket's path
SOCKET_NAME_LENGTH = 40  # characters that the agent's own socket names may have (agent.kubelet.socket_file)

PROBE_SECONDS = 30.0  # for which a probe may be silent
_PROBE = "probe"
DIRECTORY = "/etc/device-agent"


class KubeletSettings(Struct):
    """Where the kubelet is met."""

    dir: str = "/var/lib/kubelet/device-plugins"
    registration: str = "socket"
    watcher_dir: str = "/var/lib/kubelet/plugins_registry"
    pod_resources: str = "/var/lib/kubelet/pod-resources/kubelet.sock"


class PathSettings(Struct):
    """Where the agent reads and writes."""

    resources: str = f"{DIRECTORY}/resources.d"
    classes: tuple[str, ...] = (f"{DIRECTORY}/classes", "/usr/share/device-agent/classes")
    state: str = "/var/lib/device-agent"
    control: str = "/run/device-agent/control.sock"
    cdi: tuple[str, ...] = DIRECTORIES
    devinfo: str = DEVINFO


class LookSettings(Struct):
    """When the host is looked at; both in seconds."""

    every: float = 30.0
    settle: float = 0.05


class ReloadSettings(Struct):
    """When the configuration is read again by itself."""

    watch: bool = False


class MetricsSettings(Struct):
    """Where metrics are served; `listen` is empty for nowhere. pods: they tell which pods hold what."""

    listen: str = ""
    max_devices: int = 512
    pods: bool = False


class LogSettings(Struct):
    """What is logged."""

    level: str = "info"


class Settings(Struct):
    """The whole of agent.toml."""

    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    paths: PathSettings = field(default_factory=PathSettings)
    look: LookSettings = field(default_factory=LookSettings)
    reload: ReloadSettings = field(default_factory=ReloadSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    log: LogSettings = field(default_factory=LogSettings)
    probe: Mapping[str, ProbeSpec] = field(default_factory=dict)


# A reader gives the value a field gets, or what is wrong with what was written.
_Reader: TypeAlias = Callable[[FilePosition, object], "str | int | float | tuple[str, ...] | Finding"]


def read_settings(document: Document) -> tuple[Settings, list[Finding]]:
    """The settings that a document says and everything wrong with it; a key with a mistake has its default."""
    findings: list[Finding] = []
    sections: dict[str, Any] = {}
    root = FilePosition(document, ())
    for name, table in document.data.items():
        spot = root.get_child(name)
        if name not in _SECTIONS and name != _PROBE:
            findings.append(_unknown_section(spot, name))
        elif not isinstance(table, dict):
            findings.append(spot.make_error("type", f"{name} is a section: a table with its keys", f"write [{name}]"))
        elif name == _PROBE:
            sections[name] = _probes(spot, table, findings)
        else:
            sections[name] = _section(spot, name, table, findings)
    return Settings(**sections), findings


def _probes(spot: FilePosition, table: Mapping[str, object], findings: list[Finding]) -> dict[str, ProbeSpec]:
    """The probes that every entry may speak of; one with a mistake is left out."""
    probes: dict[str, ProbeSpec] = {}
    for name, written in table.items():
        here = spot.get_child(name)
        if not isinstance(written, dict):
            findings.append(
                here.make_error("type", "a probe is a table", f'write [probe.{name}] with run = ["/usr/bin/…"]')
            )
            continue
        before = len(findings)
        values: dict[str, Any] = {"timeout": PROBE_SECONDS}
        for key, value in written.items():
            reader = _OF_PROBE.get(key)
            found = None if reader is None else reader(here.get_child(key), value)
            if reader is None:
                message = "a probe has no such key, and nothing unknown is ignored"
                findings.append(
                    here.get_child(key).make_error("unknown-key", message, make_hint(key, _OF_PROBE), mark="key")
                )
            elif isinstance(found, Finding):
                findings.append(found)
            else:
                values[key] = found
        if "run" not in written:
            message = f"probe.{name} does not say what is run"
            findings.append(here.make_error("missing", message, 'write run = ["/usr/bin/…"]', mark="key"))
        if len(findings) == before:
            probes[name] = ProbeSpec(name, values["run"], values["timeout"])
    return probes


def _argv(spot: FilePosition, written: object) -> tuple[str, ...] | Finding:
    if not isinstance(written, list) or not written or not all(isinstance(item, str) for item in written):
        message = "run is a program and its arguments, each a text of its own"
        return spot.make_error("type", message, 'write ["/usr/bin/…", "…"]')
    program = _path(spot.get_child(0), written[0])
    return program if isinstance(program, Finding) else tuple(written)


def _section(spot: FilePosition, name: str, table: Mapping[str, object], findings: list[Finding]) -> object:
    make, readers = _SECTIONS[name]
    values: dict[str, Any] = {}
    for key, written in table.items():
        here = spot.get_child(key)
        reader = readers.get(key)
        if reader is None:
            message = f"[{name}] has no such key, and nothing unknown is ignored"
            findings.append(here.make_error("unknown-key", message, make_hint(key, readers), mark="key"))
            continue
        value = reader(here, written)
        if isinstance(value, Finding):
            findings.append(value)
        else:
            values[key] = value
    return make(**values)


def _unknown_section(spot: FilePosition, name: str) -> Finding:
    if name in {"resource", "class"}:
        return spot.make_error(
            "unknown-key", "agent.toml is the agent, never a resource", "move it to a file in resources.d", mark="key"
        )
    near = find_nearest(name, (*_SECTIONS, _PROBE))
    inside = next((section for section, (_, readers) in _SECTIONS.items() if name in readers), None)
    write = f"nearest: {near}" if near else f"it belongs under [{inside}]" if inside else ""
    message = "agent.toml has no such section, and nothing unknown is ignored"
    return spot.make_error("unknown-key", message, write, mark="key")


def _path(spot: FilePosition, written: object) -> str | Finding:
    if not isinstance(written, str):
        return spot.make_error("type", "a path is text in quotes", 'write for example "/run/device-agent"')
    fault = find_path_fault(written)
    return spot.make_error("path", fault.message, fault.write, mark="text") if fault else written


def _socket_directory(spot: FilePosition, written: object) -> str | Finding:
    path = _path(spot, written)
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


def _socket(spot: FilePosition, written: object) -> str | Finding:
    path = _path(spot, written)
    if isinstance(path, Finding) or len(path.encode("utf-8", "surrogateescape")) <= SOCKET_PATH_LIMIT:
        return path
    return spot.make_error(
        "socket-path", f"a socket's path has {SOCKET_PATH_LIMIT} bytes at most", "take a shorter one", mark="text"
    )


def _paths(spot: FilePosition, written: object) -> tuple[str, ...] | Finding:
    if not isinstance(written, list) or not all(isinstance(item, str) for item in written):
        return spot.make_error("type", "a list of paths is wanted", _as_list(written))
    for index, item in enumerate(written):
        path = _path(spot.get_child(index), item)
        if isinstance(path, Finding):
            return path
    return tuple(written)


def _duration(least: str, most: str, default: str) -> _Reader:
    def reader(spot: FilePosition, written: object) -> float | Finding:
        if not isinstance(written, str):
            number = isinstance(written, int) and not isinstance(written, bool)
            return spot.make_error(
                "type", "a duration is text with its unit", f'write "{written}s"' if number else f'write "{default}"'
            )
        value = durations.parse_duration(written)
        if value is None or value <= 0:
            message = "a duration is a number above 0 and ms, s, m, h or d"
            return spot.make_error("type", message, f'write for example "{default}"')
        if not (durations.parse_duration(least) or 0) <= value <= (durations.parse_duration(most) or 0):
            return spot.make_error("type", f"this is from {least} to {most}", f'write for example "{default}"')
        return value

    return reader


def _one_of(*choices: str) -> _Reader:
    def reader(spot: FilePosition, written: object) -> str | Finding:
        if isinstance(written, str) and written in choices:
            return written
        near = find_nearest(written, choices) if isinstance(written, str) else None
        return spot.make_error("type", f"one of {', '.join(choices)} is wanted", f'write "{near or choices[0]}"')

    return reader


def _switch(spot: FilePosition, written: object) -> bool | Finding:
    return (
        written
        if isinstance(written, bool)
        else spot.make_error("type", "true or false is wanted, without quotes", "write true or false")
    )


def _count(spot: FilePosition, written: object) -> int | Finding:
    if isinstance(written, int) and not isinstance(written, bool) and 0 <= written <= 1_000_000:
        return written
    return spot.make_error("type", "a whole number from 0 is wanted", "write for example 512")


def _listen(spot: FilePosition, written: object) -> str | Finding:
    """Empty, an address with a port, or a socket's path."""
    if isinstance(written, str):
        address = _ADDRESS.fullmatch(written)
        if not written or (address and 0 < int(address[1]) < 65536):
            return written
        if written.startswith("unix:"):
            path = written.removeprefix("unix:")
            fault = find_path_fault(path)
            if fault:
                return spot.make_error("path", fault.message, fault.write, mark=TextPiece(5, len(path)))
            return written
    return spot.make_error("type", "an address with its port, or a socket", 'write "127.0.0.1:9460" or "unix:/run/…"')


def _as_list(written: object) -> str:
    return f'write ["{written}"]' if isinstance(written, str) else ""


_ADDRESS = re.compile(r"(?:[A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")

_SECTIONS: Mapping[str, tuple[Callable[..., object], Mapping[str, _Reader]]] = {
    "kubelet": (
        KubeletSettings,
        {
            "dir": _socket_directory,
            "registration": _one_of("socket", "watcher"),
            "watcher_dir": _socket_directory,
            "pod_resources": _socket,
        },
    ),
    "paths": (
        PathSettings,
        {
            "resources": _path,
            "classes": _paths,
            "state": _path,
            "control": _socket,
            "cdi": _paths,
            "devinfo": _path,
        },
    ),
    "look": (
        LookSettings,
        {"every": _duration("10ms", "1d", "30s"), "settle": _duration("1ms", "10s", "50ms")},
    ),
    "reload": (ReloadSettings, {"watch": _switch}),
    "metrics": (MetricsSettings, {"listen": _listen, "max_devices": _count, "pods": _switch}),
    "log": (LogSettings, {"level": _one_of("debug", "info", "warning", "error")}),
}
_OF_PROBE: Mapping[str, _Reader] = {"run": _argv, "timeout": _duration("100ms", "1d", "30s")}
