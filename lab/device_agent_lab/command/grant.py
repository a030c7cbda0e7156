"""A grant of the lab as text: nodes with their numbers, mounts, CDI devices, variables, annotations. Pure."""

from __future__ import annotations

from collections.abc import Callable

from agent.cli.host_report.device_summary import format_node_number
from agent.cli.terminal import pad
from agent.core.inventory.device import DeviceNode
from agent.core.language.safe_text import count_columns, make_printable
from agent.core.language.value import Absent
from device_agent_lab.simulated.container_options import ContainerOptions


def format_grant_options(options: ContainerOptions, find_node: Callable[[str], DeviceNode | Absent]) -> list[str]:
    """Return one line for each part of a grant. `find_node` returns the device node at a path of the host."""
    lines: list[tuple[str, str, str]] = []
    for container, (host, permissions) in options.devices.items():
        device_node = find_node(host)
        node_text = device_node.reason if isinstance(device_node, Absent) else format_node_number(device_node)
        container_text = "" if container == host else f"   in the container {make_printable(container, None)}"
        lines.append((f"node {make_printable(host, None)}", node_text, f"{permissions}{container_text}"))
    for container, (host, read_only) in options.mounts.items():
        lines.append(
            (f"mount {make_printable(host, None)}", "ro" if read_only else "rw", make_printable(container, None))
        )
    first_width, second_width = (max((count_columns(line[index]) for line in lines), default=0) for index in (0, 1))
    text_lines = [f"{pad(line[0], first_width)}   {pad(line[1], second_width)}   {line[2]}" for line in lines]
    text_lines += [f"cdi  {make_printable(name, None)}" for name in options.cdi_devices]
    text_lines += [f"env  {name}={make_printable(value, None)}" for name, value in options.envs.items()]
    text_lines += [f"annotation {name}={make_printable(value, None)}" for name, value in options.annotations.items()]
    return text_lines or ["the grant is empty"]
