"""Words of an RDMA device and of its ports (Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.child_devices import list_own_netdevs
from agent.scanners.common_words import find_own_node
from agent.scanners.word_table import LookCache, Relation, Word, WordSubject, make_attribute, make_table

_VERBS = "/sys/class/infiniband_verbs"
_MAD = "/sys/class/infiniband_mad"
_CM = "/sys/class/infiniband_cm"  # of kernels before 5.4, which had ib_ucm

# A port has up to 256 GIDs, each a file to read; those of interfaces that are there stand first, with few gaps.
_GIDS = 256
_GAP = 16


def _ports(sight: LookCache, thing: WordSubject) -> tuple[WordSubject, ...]:
    place = f"{thing.directory}/ports"
    return tuple(WordSubject("port", name, f"{place}/{name}") for name in sight.list_names(place) if name.isdecimal())


def _link_layers(sight: LookCache, thing: WordSubject) -> Value | Absent:
    said = [sight.read_text(f"{port.directory}/link_layer") for port in _ports(sight, thing)]
    return tuple(dict.fromkeys(each for each in said if isinstance(each, str)))


def _by_device(sight: LookCache, place: str) -> Mapping[str, tuple[str, ...]]:
    """The devices of a class of the RDMA core by the RDMA device they serve, read once in a look."""

    def read() -> Mapping[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name in sight.list_names(place):
            owner = sight.read_text(f"{place}/{name}/ibdev")
            if isinstance(owner, str):
                found[owner] = (*found.get(owner, ()), f"{place}/{name}")
        return found

    return sight.get_or_read("ibdev", place, read)


def _served(sight: LookCache, thing: WordSubject, place: str, begins: str) -> list[WordSubject]:
    """The devices of a class that serve an RDMA device."""
    sight.paths.add(place)
    paths = (path for path in _by_device(sight, place).get(thing.name, ()) if _name(path).startswith(begins))
    found = (sight.root.resolve_device(path) for path in paths)
    return [WordSubject("every", _name(real), real) for real in found if isinstance(real, str)]


def _uverbs(sight: LookCache, thing: WordSubject) -> Value | Absent:
    serving = _served(sight, thing, _VERBS, "uverbs")
    return find_own_node(sight, serving[0]) if serving else Absent("it has no verbs node: is ib_uverbs loaded?")


def _nodes(place: str, begins: str) -> Callable[[LookCache, WordSubject], Value | Absent]:
    """All of a kind. One that the kernel names and that is not there is among them: who needs all misses it."""

    def read(sight: LookCache, thing: WordSubject) -> Value | Absent:
        nodes: list[str] = []
        for one in _served(sight, thing, place, begins):
            node = find_own_node(sight, one)
            name = sight.read_properties(one.directory).values.get("DEVNAME", "") if isinstance(node, Absent) else ""
            if isinstance(node, str):
                nodes.append(node)
            elif name:
                nodes.append(name if name.startswith("/dev/") else f"/dev/{name}")
        return tuple(nodes)

    return read


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _netdevs(sight: LookCache, thing: WordSubject) -> tuple[WordSubject, ...]:
    """The interfaces whose GIDs its ports have; of InfiniBand, where GIDs name none, those of the same function."""
    names: dict[str, None] = {}
    for port in _ports(sight, thing):
        if sight.read_text(f"{port.directory}/link_layer") != "InfiniBand":
            names.update(dict.fromkeys(_of_gids(sight, f"{port.directory}/gid_attrs/ndevs")))
    sight.paths.add("/sys/class/net")
    found = [sight.root.resolve_device(f"/sys/class/net/{name}") for name in names]
    if not names and isinstance(behind := sight.root.resolve_device(f"{thing.directory}/device"), str):
        found += list_own_netdevs(sight, behind)
    return tuple(WordSubject("net", at.rpartition("/")[2], at, subsystem="net") for at in found if isinstance(at, str))


def _of_gids(sight: LookCache, place: str) -> list[str]:
    """The names in the entries of a port's GID table, up to a gap of empty ones (these answer EINVAL)."""
    found: list[str] = []
    gap = 0
    for index in range(_GIDS):
        name = sight.read_text(f"{place}/{index}")
        if isinstance(name, str) and name:
            found.append(name)
            gap = 0
        else:
            gap += 1
            if gap == _GAP:
                break
    return found


def _state(file: str) -> Callable[[LookCache, WordSubject], Value | Absent]:
    """`4: ACTIVE` as `active`."""

    def read(sight: LookCache, thing: WordSubject) -> Value | Absent:
        text = sight.read_text(f"{thing.directory}/{file}")
        return text if isinstance(text, Absent) else text.rpartition(":")[2].strip().lower()

    return read


def _number(_: LookCache, thing: WordSubject) -> Value | Absent:
    return int(thing.name)


PORT = make_table(
    "port",
    Word("number", ValueType.INT, "1, 2, ...", "the directory's name", _number),
    Word("state", ValueType.TEXT, "down, init, armed, active, active_defer", "state", _state("state")),
    Word(
        "phys_state",
        ValueType.TEXT,
        "sleep, polling, disabled, linkup, linkerrorrecovery, ...",
        "phys_state",
        _state("phys_state"),
    ),
    make_attribute("link_layer", ValueType.TEXT, "InfiniBand or Ethernet"),
    make_attribute("rate", ValueType.TEXT, "100 Gb/sec (4X EDR)"),
    make_attribute("pkey", ValueType.TEXT, "its first partition key, 0xffff", "pkeys/0"),
    device=False,
)

INFINIBAND = make_table(
    "infiniband",
    make_attribute("node_guid", ValueType.TEXT, "GUID of the device"),
    make_attribute("node_type", ValueType.TEXT, "1: CA, ..."),
    make_attribute("board", ValueType.TEXT, "id of the board", "board_id"),
    make_attribute("firmware", ValueType.TEXT, "version of the firmware", "fw_ver"),
    Word(
        "link_layers",
        ValueType.TEXT,
        "InfiniBand, Ethernet, each once",
        "ports/*/link_layer",
        _link_layers,
        is_list=True,
    ),
    Word("uverbs", ValueType.PATH, "its verbs node", _VERBS, _uverbs),
    Word("umad", ValueType.PATH, "management nodes of its ports", _MAD, _nodes(_MAD, "umad"), is_list=True),
    Word("issm", ValueType.PATH, "subnet manager nodes of its ports", _MAD, _nodes(_MAD, "issm"), is_list=True),
    Word("ucm", ValueType.PATH, "connection manager nodes, of old kernels", _CM, _nodes(_CM, "ucm"), is_list=True),
    Relation("netdevs", "net", "its network interfaces", "ports/*/gid_attrs/ndevs", _netdevs, is_list=True),
    Relation("rdma", "infiniband", "itself", "-", lambda _, thing: thing),
    Relation("ports", "port", "its ports", "ports/*", _ports, is_list=True),
)
