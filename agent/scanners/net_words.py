"""Words of a network interface (Documentation/ABI/testing/sysfs-class-net)."""

from __future__ import annotations

from agent.core.language.value import Absent, Value, ValueType
from agent.host import ethtool, rtnetlink
from agent.host.recorded_tree import KernelAnswer
from agent.scanners.word_table import LookCache, Relation, Word, WordSubject, make_attribute, make_table

# ARPHRD_* of include/uapi/linux/if_arp.h, as ip-link(8) names them.
_TYPES = {1: "ether", 32: "infiniband", 280: "can", 512: "ppp", 768: "ipip", 772: "loopback", 778: "gre", 65534: "none"}

_REJECT = 0x0200  # RTF_REJECT, include/uapi/linux/route.h: a route that says "unreachable"


def _carrier(sight: LookCache, thing: WordSubject) -> Value | Absent:
    """An interface that is down answers EINVAL, and has no link."""
    value = sight.read_value(ValueType.BOOL, f"{thing.directory}/carrier")
    return False if isinstance(value, Absent) and value.unreadable else value


def _default_route(sight: LookCache, thing: WordSubject) -> Value | Absent:
    sight.paths.add("/proc/net")
    return thing.name in sight.get_or_read("routed", "", lambda: _routed(sight))


def _routed(sight: LookCache) -> frozenset[str]:
    """The interfaces that carry a default route (net/ipv4/fib_trie.c, net/ipv6/route.c write these files)."""
    found: set[str] = set()
    for fields in _rows(sight, "/proc/net/route"):
        if len(fields) >= 8 and fields[1] == fields[7] == "00000000":
            found.add(fields[0])
    for fields in _rows(sight, "/proc/net/ipv6_route"):
        if len(fields) == 10 and fields[1] == "00" and not _flags(fields[8]) & _REJECT:
            found.add(fields[9])
    return frozenset(found)


def _rows(sight: LookCache, path: str) -> list[list[str]]:
    """The fields of a file of /proc, up to a megabyte of it."""
    data = sight.root.read_list(path, 1 << 20)
    text = "" if isinstance(data, Absent) else data.decode("ascii", "replace")
    return [line.split() for line in text.splitlines()]


def _flags(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return _REJECT


def _link(sight: LookCache, thing: WordSubject) -> Value | Absent:
    number = sight.read_value(ValueType.INT, f"{thing.directory}/type")
    return _TYPES.get(number, str(number)) if isinstance(number, int) else number


def _speed(sight: LookCache, thing: WordSubject) -> Value | Absent:
    """Down or virtual interfaces answer -1 or EINVAL: no speed."""
    value = sight.read_value(ValueType.INT, f"{thing.directory}/speed")
    if isinstance(value, Absent):
        return Absent(value.reason)
    return value if isinstance(value, int) and value > 0 else Absent("it has no speed now")


def _ptp(sight: LookCache, thing: WordSubject) -> WordSubject | Absent:
    """Of a tree that does not say it, the clock is what sysfs has beside the interface; a driver knows exactly."""
    names = sight.root.query_kernel(
        f"{thing.directory}/ptp", lambda: sight.get_or_read("clock", thing.name, lambda: _clock(thing))
    )
    if names is None:
        names = sight.list_names(f"{thing.directory}/device/ptp")
    if not names:
        return Absent("it has no clock")
    real = names if isinstance(names, Absent) else sight.root.resolve_device(f"/sys/class/ptp/{names[0]}")
    return real if isinstance(real, Absent) else WordSubject("every", real.rpartition("/")[2], real, subsystem="ptp")


def _clock(thing: WordSubject) -> KernelAnswer:
    number = ethtool.read_clock_number(thing.name)
    return number if isinstance(number, Absent) else (f"ptp{number}",)


def _altnames(sight: LookCache, thing: WordSubject) -> Value | Absent:
    def ask() -> KernelAnswer:
        found = sight.get_or_read("altnames", "", rtnetlink.read_alternative_names)
        return found if isinstance(found, Absent) else found.get(thing.name, ())

    said = sight.root.query_kernel(f"{thing.directory}/altnames", ask)
    return Absent("a running kernel says it, by netlink, and this tree does not") if said is None else said


def _virtual(_: LookCache, thing: WordSubject) -> Value | Absent:
    return thing.directory.startswith("/sys/devices/virtual/")


NET = make_table(
    "net",
    Word("carrier", ValueType.BOOL, "has link", "carrier", _carrier),
    Word("default_route", ValueType.BOOL, "carries a default route", "/proc/net/route, ipv6_route", _default_route),
    make_attribute("operstate", ValueType.TEXT, "up, down, dormant, ..."),
    make_attribute("phys_port", ValueType.TEXT, "name of the physical port", "phys_port_name"),
    make_attribute("mac", ValueType.TEXT, "hardware address", "address"),
    Word("link", ValueType.TEXT, "ether, infiniband, ...", "type", _link),
    Word("speed", ValueType.INT, "Mbit/s; absent without link", "speed", _speed),
    Word("altnames", ValueType.TEXT, "its alternative names", "netlink", _altnames, is_list=True),
    Word("virtual", ValueType.BOOL, "made by software, no hardware behind it", "the real path", _virtual),
    Relation("ptp", "every", "the PTP clock by which it stamps packets", "ethtool", _ptp),
)
