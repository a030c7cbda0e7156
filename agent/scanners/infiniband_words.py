"""Words of an RDMA device and of its ports (Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.child_devices import list_own_netdevs
from agent.scanners.common_words import find_own_node
from agent.scanners.word_table import LookCache, Relation, Word, WordSubject, make_attribute, make_table

_VERBS = "/sys/class/infiniband_verbs"
_MAD = "/sys/class/infiniband_mad"
_CM = "/sys/class/infiniband_cm"  # only in kernels before 5.4, which had ib_ucm

# A port has up to 256 GIDs, each in a file. Those of existing interfaces are first, with few gaps.
_GID_LIMIT = 256
_GAP_LIMIT = 16


def _list_ports(cache: LookCache, subject: WordSubject) -> tuple[WordSubject, ...]:
    directory = f"{subject.directory}/ports"
    return tuple(
        WordSubject("port", name, f"{directory}/{name}") for name in cache.list_names(directory) if name.isdecimal()
    )


def _list_link_layers(cache: LookCache, subject: WordSubject) -> Value | Absent:
    link_layers = [cache.read_text(f"{port.directory}/link_layer") for port in _list_ports(cache, subject)]
    return tuple(dict.fromkeys(link_layer for link_layer in link_layers if isinstance(link_layer, str)))


def _map_servers(cache: LookCache, class_directory: str) -> Mapping[str, tuple[str, ...]]:
    """Return the devices of a class of the RDMA core by their RDMA device, read once in a look."""

    def read() -> Mapping[str, tuple[str, ...]]:
        servers: dict[str, tuple[str, ...]] = {}
        for name in cache.list_names(class_directory):
            owner = cache.read_text(f"{class_directory}/{name}/ibdev")
            if isinstance(owner, str):
                servers[owner] = (*servers.get(owner, ()), f"{class_directory}/{name}")
        return servers

    return cache.get_or_read("ibdev", class_directory, read)


def _list_servers(cache: LookCache, subject: WordSubject, class_directory: str, prefix: str) -> list[WordSubject]:
    """Return the devices of a class that belong to an RDMA device."""
    cache.paths.add(class_directory)
    paths = (
        path
        for path in _map_servers(cache, class_directory).get(subject.name, ())
        if _get_name(path).startswith(prefix)
    )
    directories = (cache.root.resolve_device(path) for path in paths)
    return [
        WordSubject("every", _get_name(directory), directory) for directory in directories if isinstance(directory, str)
    ]


def _find_uverbs(cache: LookCache, subject: WordSubject) -> Value | Absent:
    servers = _list_servers(cache, subject, _VERBS, "uverbs")
    return find_own_node(cache, servers[0]) if servers else Absent("it has no verbs node: is ib_uverbs loaded?")


def _make_nodes_reader(class_directory: str, prefix: str) -> Callable[[LookCache, WordSubject], Value | Absent]:
    """Return a function that reads all nodes of one kind.

    The list also has nodes that the kernel names and that do not exist. So a mount of all nodes fails.
    """

    def read(cache: LookCache, subject: WordSubject) -> Value | Absent:
        nodes: list[str] = []
        for server in _list_servers(cache, subject, class_directory, prefix):
            node = find_own_node(cache, server)
            name = cache.read_properties(server.directory).values.get("DEVNAME", "") if isinstance(node, Absent) else ""
            if isinstance(node, str):
                nodes.append(node)
            elif name:
                nodes.append(name if name.startswith("/dev/") else f"/dev/{name}")
        return tuple(nodes)

    return read


def _get_name(path: str) -> str:
    return path.rpartition("/")[2]


def _list_netdevs(cache: LookCache, subject: WordSubject) -> tuple[WordSubject, ...]:
    """Return the interfaces in the GIDs of its ports.

    For InfiniBand, whose GIDs name none, those of the same function.
    """
    names: dict[str, None] = {}
    for port in _list_ports(cache, subject):
        if cache.read_text(f"{port.directory}/link_layer") != "InfiniBand":
            names.update(dict.fromkeys(_list_gid_netdevs(cache, f"{port.directory}/gid_attrs/ndevs")))
    cache.paths.add("/sys/class/net")
    directories = [cache.root.resolve_device(f"/sys/class/net/{name}") for name in names]
    if not names and isinstance(device := cache.root.resolve_device(f"{subject.directory}/device"), str):
        directories += list_own_netdevs(cache, device)
    return tuple(
        WordSubject("net", directory.rpartition("/")[2], directory, subsystem="net")
        for directory in directories
        if isinstance(directory, str)
    )


def _list_gid_netdevs(cache: LookCache, directory: str) -> list[str]:
    """Return the names in the GID table of a port, up to a gap of empty entries (these answer EINVAL)."""
    names: list[str] = []
    gap = 0
    for index in range(_GID_LIMIT):
        name = cache.read_text(f"{directory}/{index}")
        if isinstance(name, str) and name:
            names.append(name)
            gap = 0
        else:
            gap += 1
            if gap == _GAP_LIMIT:
                break
    return names


def _make_state_reader(file: str) -> Callable[[LookCache, WordSubject], Value | Absent]:
    """Return a function that reads `4: ACTIVE` as `active`."""

    def read(cache: LookCache, subject: WordSubject) -> Value | Absent:
        text = cache.read_text(f"{subject.directory}/{file}")
        return text if isinstance(text, Absent) else text.rpartition(":")[2].strip().lower()

    return read


def _get_number(_: LookCache, subject: WordSubject) -> Value | Absent:
    return int(subject.name)


PORT = make_table(
    "port",
    Word("number", ValueType.INT, "1, 2, ...", "the directory's name", _get_number),
    Word("state", ValueType.TEXT, "down, init, armed, active, active_defer", "state", _make_state_reader("state")),
    Word(
        "phys_state",
        ValueType.TEXT,
        "sleep, polling, disabled, linkup, linkerrorrecovery, ...",
        "phys_state",
        _make_state_reader("phys_state"),
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
        _list_link_layers,
        is_list=True,
    ),
    Word("uverbs", ValueType.PATH, "its verbs node", _VERBS, _find_uverbs),
    Word("umad", ValueType.PATH, "management nodes of its ports", _MAD, _make_nodes_reader(_MAD, "umad"), is_list=True),
    Word(
        "issm",
        ValueType.PATH,
        "subnet manager nodes of its ports",
        _MAD,
        _make_nodes_reader(_MAD, "issm"),
        is_list=True,
    ),
    Word(
        "ucm",
        ValueType.PATH,
        "connection manager nodes (old kernels)",
        _CM,
        _make_nodes_reader(_CM, "ucm"),
        is_list=True,
    ),
    Relation("netdevs", "net", "its network interfaces", "ports/*/gid_attrs/ndevs", _list_netdevs, is_list=True),
    Relation("rdma", "infiniband", "itself", "-", lambda _, subject: subject),
    Relation("ports", "port", "its ports", "ports/*", _list_ports, is_list=True),
)
