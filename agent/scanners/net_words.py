"""Words of a network interface (Documentation/ABI/testing/sysfs-class-net)."""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.host import ethtool, rtnetlink
from agent.host.recorded_tree import KernelAnswer
from agent.scanners.word_table import LookCache, Relation, Word, WordSubject, make_attribute, make_table

# ARPHRD_* of include/uapi/linux/if_arp.h, as ip-link(8) names them.
_TYPES = {1: "ether", 32: "infiniband", 280: "can", 512: "ppp", 768: "ipip", 772: "loopback", 778: "gre", 65534: "none"}

_REJECT = 0x0200  # RTF_REJECT, include/uapi/linux/route.h: an "unreachable" route


def _read_carrier(cache: LookCache, subject: WordSubject) -> Value | Absent:
    """Return whether the interface has link. An interface that is down answers EINVAL, and has none."""
    value = cache.read_value(ValueType.BOOL, f"{subject.directory}/carrier")
    return False if isinstance(value, Absent) and value.unreadable else value


def _has_default_route(cache: LookCache, subject: WordSubject) -> Value | Absent:
    cache.paths.add("/proc/net")
    return subject.name in cache.get_or_read("routed", "", lambda: _list_routed_interfaces(cache))


def _list_routed_interfaces(cache: LookCache) -> frozenset[str]:
    """Return the interfaces with a default route (net/ipv4/fib_trie.c, net/ipv6/route.c write these files)."""
    interfaces: set[str] = set()
    for fields in _read_rows(cache, "/proc/net/route"):
        if len(fields) >= 8 and fields[1] == fields[7] == "00000000":
            interfaces.add(fields[0])
    for fields in _read_rows(cache, "/proc/net/ipv6_route"):
        if len(fields) == 10 and fields[1] == "00" and not _parse_flags(fields[8]) & _REJECT:
            interfaces.add(fields[9])
    return frozenset(interfaces)


def _read_rows(cache: LookCache, path: str) -> list[list[str]]:
    """Return the fields of a file in /proc, up to a megabyte of it."""
    data = cache.root.read_list(path, 1 << 20)
    text = "" if isinstance(data, Absent) else data.decode("ascii", "replace")
    return [line.split() for line in text.splitlines()]


def _parse_flags(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return _REJECT


def _read_link_type(cache: LookCache, subject: WordSubject) -> Value | Absent:
    number = cache.read_value(ValueType.INT, f"{subject.directory}/type")
    return _TYPES.get(number, str(number)) if isinstance(number, int) else number


def _read_speed(cache: LookCache, subject: WordSubject) -> Value | Absent:
    """Return the speed in Mbit/s. Down or virtual interfaces answer -1 or EINVAL: no speed."""
    value = cache.read_value(ValueType.INT, f"{subject.directory}/speed")
    if isinstance(value, Absent):
        return Absent(value.reason)
    return value if isinstance(value, int) and value > 0 else Absent("it has no speed now")


def _find_ptp_clock(cache: LookCache, subject: WordSubject) -> WordSubject | Absent:
    """Return the PTP clock of the interface. The driver knows it exactly.

    For a tree without that answer it is the clock in sysfs at the device of the interface.
    """
    names = cache.root.query_kernel(
        f"{subject.directory}/ptp", lambda: cache.get_or_read("clock", subject.name, lambda: _read_clock(subject))
    )
    if names is None:
        names = cache.list_names(f"{subject.directory}/device/ptp")
    if not names:
        return Absent("it has no clock")
    directory = names if isinstance(names, Absent) else cache.root.resolve_device(f"/sys/class/ptp/{names[0]}")
    return (
        directory
        if isinstance(directory, Absent)
        else WordSubject("every", directory.rpartition("/")[2], directory, subsystem="ptp")
    )


def _read_clock(subject: WordSubject) -> KernelAnswer:
    number = ethtool.read_clock_number(subject.name)
    return number if isinstance(number, Absent) else (f"ptp{number}",)


def _list_alternative_names(cache: LookCache, subject: WordSubject) -> Value | Absent:
    def ask() -> KernelAnswer:
        names_by_interface = cache.get_or_read("altnames", "", rtnetlink.read_alternative_names)
        return (
            names_by_interface if isinstance(names_by_interface, Absent) else names_by_interface.get(subject.name, ())
        )

    names = cache.root.query_kernel(f"{subject.directory}/altnames", ask)
    return Absent("a running kernel says it, by netlink, and this tree does not") if names is None else names


def _is_virtual(_: LookCache, subject: WordSubject) -> Value | Absent:
    return subject.directory.startswith("/sys/devices/virtual/")


NET = make_table(
    "net",
    Word("carrier", ValueType.BOOL, "true if it has link", "carrier", _read_carrier),
    Word(
        "default_route",
        ValueType.BOOL,
        "true if a default route uses it",
        "/proc/net/route, ipv6_route",
        _has_default_route,
    ),
    make_attribute("operstate", ValueType.TEXT, "up, down, dormant, ..."),
    make_attribute("phys_port", ValueType.TEXT, "name of the physical port", "phys_port_name"),
    make_attribute("mac", ValueType.TEXT, "hardware address", "address"),
    Word("link", ValueType.TEXT, "ether, infiniband, ...", "type", _read_link_type),
    Word("speed", ValueType.INT, "Mbit/s; absent without link", "speed", _read_speed),
    Word("altnames", ValueType.TEXT, "its alternative names", "netlink", _list_alternative_names, is_list=True),
    Word("virtual", ValueType.BOOL, "true for an interface without hardware", "the real path", _is_virtual),
    Relation("ptp", "every", "the PTP clock of its packet timestamps", "ethtool", _find_ptp_clock),
)
