"""What a container would get, as text: nodes with their numbers, mounts, CDI devices, variables, annotations. Pure."""

from __future__ import annotations

from collections.abc import Callable

from agent.cli.host_report.device_summary import format_node_number
from agent.cli.terminal import pad
from agent.core.inventory.device import DeviceNode
from agent.core.language.safe_text import count_columns, make_printable
from agent.core.language.value import Absent
from agent.kubelet.simulated.container_options import ContainerOptions


def format_grant_options(options: ContainerOptions, node: Callable[[str], DeviceNode | Absent]) -> list[str]:
    """A line for each thing; `node` says what stands at a path of the host."""
    lines: list[tuple[str, str, str]] = []
    for container, (host, permissions) in options.devices.items():
        found = node(host)
        said = found.reason if isinstance(found, Absent) else format_node_number(found)
        inside = "" if container == host else f"   in the container {make_printable(container, None)}"
        lines.append((f"node {make_printable(host, None)}", said, f"{permissions}{inside}"))
    for container, (host, read_only) in options.mounts.items():
        lines.append(
            (f"mount {make_printable(host, None)}", "ro" if read_only else "rw", make_printable(container, None))
        )
    first, second = (max((count_columns(line[index]) for line in lines), default=0) for index in (0, 1))
    text = [f"{pad(line[0], first)}   {pad(line[1], second)}   {line[2]}" for line in lines]
    text += [f"cdi  {make_printable(name, None)}" for name in options.cdi_devices]
    text += [f"env  {name}={make_printable(value, None)}" for name, value in options.envs.items()]
    text += [f"annotation {name}={make_printable(value, None)}" for name, value in options.annotations.items()]
    return text or ["nothing at all"]
