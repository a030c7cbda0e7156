import itertools

import pytest

from agent.core.entry.resource_spec import Slots
from agent.core.grants.build_grant import build_grant
from agent.core.grants.grant import (
    GrantRefusedError,
    RefusalCause,
    RereadDevice,
    list_cdi_names,
    list_mount_globs,
    list_node_paths,
)
from agent.core.inventory.device import DeviceNode, MatchedPath
from agent.core.language.template import parse
from agent.core.language.value import Absent
from agent.core.struct import replace
from tests.core.builders import cdi, env, give, make_listed, mount, node, spec, table


def make_reread(name, facts=None, nodes=None, shares=(), was=None, **more):
    """Return a device with its listed nodes (default: its current nodes)."""
    found = tuple(there for there in (nodes or {}).values() if isinstance(there, DeviceNode))
    return RereadDevice(
        make_listed(name, nodes=found if was is None else was, **more), tuple(shares), facts or {}, nodes or {}
    )


def tty(n, path=None):
    """A device of one node, /dev/ttyUSBn."""
    path = path or f"/dev/ttyUSB{n}"
    return make_reread(f"d{n}", {"node": path, "serial": f"S{n}"}, {path: node(path, n)})


def read_refusal(*arguments):
    with pytest.raises(GrantRefusedError) as error:
        build_grant(*arguments)
    return error.value.cause, error.value.text


SERIAL = spec(nodes=(give("port", "{node}", "/dev/serial{n}"),), env=(env("PORTS", "{given.port}", ","),))


def test_devices_are_numbered_in_list_order():
    grant = build_grant(SERIAL, ["d4", "d2"], [tty(2), tty(4)], 2)
    assert [(one.host, one.container, one.permissions) for one in grant.nodes] == [
        ("/dev/ttyUSB2", "/dev/serial0", "rw"),
        ("/dev/ttyUSB4", "/dev/serial1", "rw"),
    ]
    assert grant.env == {"PORTS": "/dev/serial0,/dev/serial1"}
    assert grant.resource == "example.com/a"


def test_the_order_of_the_request_makes_no_difference():
    ids = ["d1", "d2", "d10"]
    devices = [tty(1), tty(2), tty(10)]
    grants = [build_grant(SERIAL, order, devices, 3) for order in itertools.permutations(ids)]
    assert all(grant == grants[0] for grant in grants)
    assert grants[0].ids == ("d1", "d2", "d10")


def test_a_node_is_given_by_its_canonical_path():
    link = make_reread("d", {"node": "/dev/by-id/x"}, {"/dev/by-id/x": node("/dev/ttyUSB7")})
    grant = build_grant(spec(nodes=(give("n", "{node}"),)), ["d"], [link], 1)
    assert [(one.host, one.container) for one in grant.nodes] == [("/dev/ttyUSB7", "/dev/by-id/x")]


def test_one_node_of_several_devices_is_given_once():
    both = [make_reread(name, {}, {"/dev/vfio/vfio": node("/dev/vfio/vfio")}) for name in "ab"]
    grant = build_grant(spec(nodes=(give("c", "/dev/vfio/vfio"),)), ["a", "b"], both, 2)
    assert len(grant.nodes) == 1


def test_two_host_paths_for_one_container_path_are_refused_by_name():
    cause, text = read_refusal(spec(nodes=(give("p", "{node}", "/dev/modem"),)), ["d1", "d2"], [tty(1), tty(2)], 2)
    assert cause is RefusalCause.CONFLICT
    assert "/dev/modem" in text
    assert "/dev/ttyUSB1" in text
    assert "/dev/ttyUSB2" in text


def test_two_permissions_for_one_container_path_are_refused():
    twice = (give("a", "{node}", "/dev/x"), give("b", "{node}", "/dev/x", "r"))
    cause, text = read_refusal(spec(nodes=twice), ["d1"], [tty(1)], 1)
    assert cause is RefusalCause.CONFLICT
    assert "/dev/x" in text


def test_a_missing_node_is_refused_with_device_reason_and_next_step():
    gone = make_reread("d1", {"node": "/dev/x"}, {"/dev/x": Absent("no such file")})
    cause, text = read_refusal(SERIAL, ["d1"], [gone], 1)
    assert cause is RefusalCause.NODE_MISSING
    assert text == "example.com/a d1: /dev/x: no such file; on the node: device-agent scan d1"


@pytest.mark.parametrize(("word", "reason"), [(Absent("no driver"), "no driver"), ("../kmem", "cannot be in a path")])
def test_a_path_that_cannot_be_written_is_missing(word, reason):
    cause, text = read_refusal(spec(nodes=(give("p", "/dev/{w}"),)), ["d"], [make_reread("d", {"w": word})], 1)
    assert cause is RefusalCause.NODE_MISSING
    assert "node p: w: " in text
    assert reason in text


def test_a_required_node_without_a_place_in_the_container_is_missing():
    there = make_reread("d", {"w": Absent("no driver")}, {"/dev/x": node("/dev/x", 1)})
    cause, text = read_refusal(spec(nodes=(give("p", "/dev/x", "/dev/{w}"),)), ["d"], [there], 1)
    assert cause is RefusalCause.NODE_MISSING
    assert "node p: no container path: w: no driver" in text
    assert build_grant(spec(nodes=(give("p", "/dev/x", "/dev/{w}", optional=True),)), ["d"], [there], 1).nodes == ()


def test_an_empty_list_of_required_nodes_is_missing():
    cause, _ = read_refusal(spec(nodes=(give("p", "/dev/{w}"),)), ["d"], [make_reread("d", {"w": ()})], 1)
    assert cause is RefusalCause.NODE_MISSING


def test_an_optional_node_that_is_absent_is_left_out_and_shifts_no_number():
    entry = spec(
        nodes=(give("a", "/dev/a{x}", "/dev/a{n}", optional=True), give("b", "{node}", "/dev/b{n}")),
        env=(env("A", "{given.a}", ","), env("B_{n}", "{given.b}")),
    )
    devices = [
        make_reread("1", {"x": Absent("none"), "node": "/dev/n1"}, {"/dev/n1": node("/dev/n1", 1)}),
        make_reread("2", {"x": "9", "node": "/dev/n2"}, {"/dev/a9": node("/dev/a9", 9), "/dev/n2": node("/dev/n2", 2)}),
    ]
    grant = build_grant(entry, ["1", "2"], devices, 2)
    assert [one.container for one in grant.nodes] == ["/dev/b0", "/dev/a1", "/dev/b1"]
    assert grant.env == {"A": "/dev/a1", "B_0": "/dev/b0", "B_1": "/dev/b1"}


def test_a_node_that_another_device_has_now_is_not_given():
    listed_as = RereadDevice(
        make_listed("d", nodes=(node("/dev/x", 7),)), (), {"node": "/dev/x"}, {"/dev/x": node("/dev/x", 8)}
    )
    cause, text = read_refusal(SERIAL, ["d"], [listed_as], 1)
    assert cause is RefusalCause.NODE_MISSING
    assert "char 240:8 now, was listed as char 240:7" in text


def test_a_required_node_that_was_not_listed_is_not_given():
    elsewhere = make_reread("d", {"node": "/dev/lab/a"}, {"/dev/lab/a": node("/dev/y", 8)}, was=(node("/dev/x", 7),))
    cause, text = read_refusal(SERIAL, ["d"], [elsewhere], 1)
    assert cause is RefusalCause.NODE_MISSING
    assert "/dev/lab/a is /dev/y char 240:8 now, which was not listed" in text


def test_what_the_hardware_has_more_than_was_listed_is_given():
    entry = spec(nodes=(give("all", "{nodes}", "/dev/n{n}"), give("more", "/dev/m", optional=True)))
    paths = ("/dev/a", "/dev/b")
    found = {path: node(path) for path in (*paths, "/dev/m")}
    grant = build_grant(entry, ["d"], [make_reread("d", {"nodes": paths}, found, was=(node("/dev/a"),))], 1)
    assert [one.host for one in grant.nodes] == ["/dev/a", "/dev/b", "/dev/m"]


def test_list_words_are_counted_on_over_the_devices():
    entry = spec(
        nodes=(give("u", "/dev/{ports}", "/dev/uverbs{n}"),),
        env=(env("U_{n}", "{given.u}"), env("PORTS", "{ports}", ":")),
    )

    def hca(name, *ports):
        return make_reread(name, {"ports": ports}, {f"/dev/{port}": node(f"/dev/{port}") for port in ports})

    grant = build_grant(entry, ["a", "b"], [hca("a", "x1", "x2"), hca("b", "x7")], 2)
    assert [(one.host, one.container) for one in grant.nodes] == [
        ("/dev/x1", "/dev/uverbs0"),
        ("/dev/x2", "/dev/uverbs1"),
        ("/dev/x7", "/dev/uverbs2"),
    ]
    assert grant.env == {
        "U_0": "/dev/uverbs0",
        "U_1": "/dev/uverbs1",
        "U_2": "/dev/uverbs2",
        "PORTS": "x1:x2:x7",
    }


def test_a_missing_element_of_a_list_keeps_the_numbers_of_the_others():
    entry = spec(nodes=(give("u", "/dev/{ports}", "/dev/u{n}", optional=True),), env=(env("U_{n}", "{given.u}"),))
    device = make_reread("a", {"ports": ("x", "y")}, {"/dev/y": node("/dev/y")})
    grant = build_grant(entry, ["a"], [device], 1)
    assert [one.container for one in grant.nodes] == ["/dev/u1"]
    assert grant.env == {"U_1": "/dev/u1"}


def test_several_places_for_one_node():
    entry = spec(nodes=(give("p", "{node}", ("/dev/a{n}", "/dev/dir/")),), env=(env("P", "{given.p}", ","),))
    grant = build_grant(entry, ["d1"], [tty(1)], 1)
    assert [one.container for one in grant.nodes] == ["/dev/a0", "/dev/dir/ttyUSB1"]
    assert grant.env == {"P": "/dev/a0,/dev/dir/ttyUSB1"}


def test_values_are_joined_in_list_order_each_once():
    devices = [make_reread("a", {"g": "2"}), make_reread("b", {"g": "1"}), make_reread("c", {"g": "2"})]
    assert build_grant(spec(env=(env("G", "{g}", ","),)), ["c", "b", "a"], devices, 3).env == {"G": "2,1"}


def test_equal_values_need_no_join_and_different_ones_are_refused_by_name():
    entry = spec(env=(env("G", "{g}"),))
    assert build_grant(entry, ["a", "b"], [make_reread("a", {"g": "1"}), make_reread("b", {"g": "1"})], 2).env == {
        "G": "1"
    }
    cause, text = read_refusal(entry, ["a", "b"], [make_reread("a", {"g": "1"}), make_reread("b", {"g": "2"})], 2)
    assert cause is RefusalCause.CONFLICT
    assert text == "example.com/a: G would be both 1 and 2"


def test_two_variables_of_one_name_are_refused_where_they_differ():
    entry = spec(env=(env("{a}", "1"), env("{b}", "2")))
    cause, _ = read_refusal(entry, ["d"], [make_reread("d", {"a": "X", "b": "X"})], 1)
    assert cause is RefusalCause.CONFLICT


def test_a_variable_whose_word_is_absent_is_left_out():
    entry = spec(env=(env("A", "{gone}"), env("B_{gone}", "x"), env("C", "y")))
    assert build_grant(entry, ["d"], [make_reread("d")], 1).env == {"C": "y"}


@pytest.mark.parametrize(("name", "value"), [("A=B", "x"), ("", "x"), ("A\n", "x"), ("A", "x\x00"), ("A", "\x1b[m")])
def test_what_can_be_no_variable_is_refused_in_one_printable_line(name, value):
    entry = spec(env=(env("{name}", "{value}"),))
    cause, text = read_refusal(entry, ["d"], [make_reread("d", {"name": name, "value": value})], 1)
    assert cause is RefusalCause.CONFLICT
    assert text.isprintable()


def test_the_words_of_the_giving():
    words = ("resource", "id", "n", "asked", "offered", "all_given", "shares", "share", "share_percent")
    entry = spec(env=tuple(env(word.upper(), f"{{{word}}}") for word in words))
    part = make_reread("d", {"id": "not this"}, shares=(2, 3))
    part = RereadDevice(make_listed("d", shares=4), part.shares, part.facts, part.nodes)
    assert build_grant(entry, ["d::2", "d::3"], [part], 8).env == {
        "RESOURCE": "example.com/a",
        "ID": "d",
        "N": "0",
        "ASKED": "2",
        "OFFERED": "8",
        "ALL_GIVEN": "false",
        "SHARES": "4",
        "SHARE": "2",
        "SHARE_PERCENT": "25",
    }


def test_all_given():
    entry = spec(env=(env("ALL", "{all_given}"),))
    assert build_grant(entry, ["a", "b"], [make_reread("a"), make_reread("b")], 2).env == {"ALL": "true"}


def test_a_refusal_is_one_line_of_200_characters_at_most():
    error = GrantRefusedError(RefusalCause.UNHEALTHY, "a\nb\x1b" + "x" * 400)
    assert len(error.text) == 200
    assert error.text.startswith(r"a\nb\x1bxxx")
    assert error.text.endswith("…")


def test_node_paths_are_those_that_can_be_written():
    entry = spec(nodes=(give("a", "{node}"), give("b", "/dev/{gone}"), give("c", "/dev/{up}"), give("d", "/dev/{p}")))
    facts = {"node": "/dev/x", "gone": Absent(""), "up": "../..", "p": ("x", "y")}
    assert list_node_paths(entry, facts.__getitem__) == ("/dev/x", "/dev/y")


def test_other_hardware_in_its_place_is_refused():
    cause, text = read_refusal(SERIAL, ["d2"], [replace(tty(2), is_same_hardware=False)], 1)
    assert cause is RefusalCause.NODE_MISSING
    assert text.startswith("example.com/a d2: other hardware is in its place now")


def make_reread_with_mounts(name, facts=None, there=None, specs=None):
    """Return a device with the paths of its mounts and the specs of its CDI devices."""
    mounts = {pattern: tuple(MatchedPath(*fit) for fit in fits) for pattern, fits in (there or {}).items()}
    return replace(make_reread(name, facts), mounts=mounts, cdi=specs or {})


LIBRARIES = {"/lib/x*": [("/lib/x.so", "/lib/x.so.1"), ("/lib/x2.so", "/lib/x2.so")]}


@pytest.mark.parametrize(
    ("path", "to", "containers"),
    [
        ("/lib/x*", (), ["/lib/x.so", "/lib/x2.so"]),
        ("/lib/x*", "/opt/", ["/opt/x.so", "/opt/x2.so"]),
        ("/lib/x*", ("/opt/{id}/", "/opt/{gone}/"), ["/opt/d/x.so", "/opt/d/x2.so"]),
    ],
)
def test_mounts_by_their_canonical_paths(path, to, containers):
    grant = build_grant(
        spec(mounts=(mount("lib", path, to, read_only=True),)), ["d"], [make_reread_with_mounts("d", {}, LIBRARIES)], 1
    )
    assert [(one.host, one.container, one.read_only) for one in grant.mounts] == [
        ("/lib/x.so.1", containers[0], True),
        ("/lib/x2.so", containers[1], True),
    ]


def test_several_places_for_one_mount():
    entry = spec(mounts=(mount("lib", "/lib/x*", ("/a/", "/b/")),))
    grant = build_grant(entry, ["d"], [make_reread_with_mounts("d", {}, LIBRARIES)], 1)
    assert {one.container for one in grant.mounts} == {"/a/x.so", "/a/x2.so", "/b/x.so", "/b/x2.so"}


def test_a_mount_of_each_device_and_one_that_all_share():
    entry = spec(mounts=(mount("own", "/run/{serial}", "/run/card{n}"), mount("all", "/lib/x")))
    devices = [
        make_reread_with_mounts(
            name, {"serial": name}, {f"/run/{name}": [(f"/run/{name}",) * 2], "/lib/x": [("/lib/x", "/lib/x")]}
        )
        for name in "ab"
    ]
    grant = build_grant(entry, ["a", "b"], devices, 2)
    assert {one.container: one.host for one in grant.mounts} == {
        "/run/card0": "/run/a",
        "/run/card1": "/run/b",
        "/lib/x": "/lib/x",
    }


def test_a_mount_of_each_element_of_a_list():
    entry = spec(mounts=(mount("all", "/run/{names}", "/run/{n}"),))
    there = {f"/run/{name}": [(f"/run/{name}",) * 2] for name in "xy"}
    grant = build_grant(entry, ["d"], [make_reread_with_mounts("d", {"names": ("x", "y")}, there)], 1)
    assert {one.container: one.host for one in grant.mounts} == {"/run/0": "/run/x", "/run/1": "/run/y"}


def test_a_required_mount_that_is_missing_is_refused_and_an_optional_one_left_out():
    gone = replace(make_reread("d"), mounts={"/opt/x": Absent("no such file")})
    cause, text = read_refusal(spec(mounts=(mount("lib", "/opt/x"),)), ["d"], [gone], 1)
    assert cause is RefusalCause.MOUNT_MISSING
    assert text == "example.com/a d: /opt/x: no such file; on the node: device-agent scan d"
    assert build_grant(spec(mounts=(mount("lib", "/opt/x", optional=True),)), ["d"], [gone], 1).mounts == ()


def test_a_required_mount_without_a_place_in_the_container_is_missing():
    there = make_reread_with_mounts("d", {"w": Absent("no driver")}, {"/x": [("/x", "/x")]})
    cause, text = read_refusal(spec(mounts=(mount("lib", "/x", "/{w}"),)), ["d"], [there], 1)
    assert cause is RefusalCause.MOUNT_MISSING
    assert "mount lib: no container path: w: no driver" in text
    assert build_grant(spec(mounts=(mount("lib", "/x", "/{w}", optional=True),)), ["d"], [there], 1).mounts == ()


@pytest.mark.parametrize("more", [mount("b", "/y", "/c"), mount("b", "/x", "/c", read_only=True)])
def test_two_mounts_at_one_place_are_refused_where_they_differ(more):
    there = {path: [(path, path)] for path in ("/x", "/y")}
    cause, text = read_refusal(
        spec(mounts=(mount("a", "/x", "/c"), more)), ["d"], [make_reread_with_mounts("d", {}, there)], 1
    )
    assert cause is RefusalCause.CONFLICT
    assert "/c would be both /x to write and " in text


def test_a_mount_and_a_node_at_one_place_are_refused():
    entry = spec(nodes=(give("a", "{node}", "/dev/c"),), mounts=(mount("b", "/x", "/dev/c"),))
    device = replace(tty(1), mounts={"/x": (MatchedPath("/x", "/x"),)})
    cause, text = read_refusal(entry, ["d1"], [device], 1)
    assert cause is RefusalCause.CONFLICT
    assert text == "example.com/a: /dev/c would be both /dev/ttyUSB1 rw and /x to write"
    later = replace(device, mounts={}, facts=device.facts | {"node": "/dev/ttyUSB1"})
    both = spec(
        nodes=(give("a", "{node}", "/dev/c", optional=True),), mounts=(mount("b", "/x", "/dev/c", optional=True),)
    )
    first = replace(tty(0), nodes={}, mounts={"/x": (MatchedPath("/x", "/x"),)})
    cause, text = read_refusal(both, ["d0", "d1"], [first, later], 2)
    assert text == "example.com/a: /dev/c would be both /x to write and /dev/ttyUSB1 rw"


def test_annotations_are_joined_like_variables():
    entry = spec(annotations=(env("a.com/ids", "{id}", ","), env("one", "x")))
    grant = build_grant(entry, ["a", "b"], [make_reread("a"), make_reread("b")], 2)
    assert grant.annotations == {"a.com/ids": "a,b", "one": "x"}
    assert grant.env == {}


@pytest.mark.parametrize("key", ["io.kubernetes.x", "", "a b", "a\n", "/x", "a/b/c", "x" * 64])
def test_what_can_be_no_annotation_is_refused(key):
    cause, text = read_refusal(spec(annotations=(env("{key}", "x"),)), ["d"], [make_reread("d", {"key": key})], 1)
    assert cause is RefusalCause.CONFLICT
    assert text.isprintable()


def test_an_annotation_of_two_values_is_refused():
    entry = spec(annotations=(env("a", "{g}"),))
    cause, text = read_refusal(entry, ["a", "b"], [make_reread("a", {"g": "1"}), make_reread("b", {"g": "2"})], 2)
    assert (cause, text) == (RefusalCause.CONFLICT, "example.com/a: a would be both 1 and 2")


GPUS = {f"a.com/gpu={n}": "/etc/cdi/a.json" for n in range(3)}


def gpu(n):
    return make_reread_with_mounts(f"d{n}", {"serial": str(n)}, specs=GPUS)


def test_cdi_devices_are_named_in_list_order_each_once():
    entry = spec(cdi=(cdi("a.com/gpu={serial}"), cdi("a.com/gpu=0")))
    grant = build_grant(entry, ["d2", "d1"], [gpu(1), gpu(2)], 3)
    assert grant.cdi == ("a.com/gpu=1", "a.com/gpu=0", "a.com/gpu=2")
    assert grant.annotations == {}


def test_cdi_devices_by_annotation():
    entry = spec(cdi=(cdi("a.com/gpu={serial}", via="annotation"),), annotations=(env("mine", "x"),))
    grant = build_grant(entry, ["d1", "d2"], [gpu(1), gpu(2)], 3)
    assert grant.cdi == ()
    assert grant.annotations == {
        "mine": "x",
        "cdi.k8s.io/device-agent_example.com_a": "a.com/gpu=1,a.com/gpu=2",
    }


@pytest.mark.parametrize(
    ("facts", "specs", "text"),
    [
        (
            {"serial": "7"},
            {"a.com/gpu=7": Absent("is in no CDI spec in /etc/cdi")},
            "a.com/gpu=7 is in no CDI spec in ",
        ),
        ({"serial": "7"}, {}, "a.com/gpu=7 was not read"),
        ({"serial": "../7"}, {}, "a.com/gpu=../7 is no full name of a CDI device"),
        ({}, {}, "cdi a.com/gpu={serial}: serial: was not read"),
    ],
)
def test_a_cdi_device_that_cannot_be_named_is_refused(facts, specs, text):
    cause, said = read_refusal(
        spec(cdi=(cdi("a.com/gpu={serial}"),)), ["d"], [make_reread_with_mounts("d", facts, specs=specs)], 1
    )
    assert cause is RefusalCause.CDI_MISSING
    assert said.startswith(f"example.com/a d: {text}")


def test_an_unchecked_cdi_device_is_named_whatever_the_specs_say():
    entry = spec(cdi=(cdi("a.com/gpu={serial}", unchecked=True),))
    assert build_grant(entry, ["d"], [make_reread_with_mounts("d", {"serial": "9"})], 1).cdi == ("a.com/gpu=9",)
    assert list_cdi_names(entry, {"serial": "9"}.__getitem__) == ()


def test_patterns_and_names_to_look_for_are_those_that_can_be_written():
    entry = spec(
        mounts=(mount("a", "/x/{w}*"), mount("b", "/y/{gone}")), cdi=(cdi("a.com/gpu={w}"), cdi("a.com/gpu={gone}"))
    )
    facts = {"w": "[1]", "gone": Absent("")}
    assert list_mount_globs(entry, facts.__getitem__) == ("/x/[[]1]*",)
    assert list_cdi_names(entry, facts.__getitem__) == ("a.com/gpu=[1]",)


def test_a_file_for_each_id_says_what_there_is_to_say():
    vf = spec(devinfo=table(type="pci", address="{address}", rdma="{rdma.name}", n="{n}"))
    devices = [
        make_reread("a", {"address": "0000:3b:00.2", "rdma.name": Absent("none")}),
        make_reread("b", {"address": "x/y"}),
    ]
    grant = build_grant(vf, ["a", "b"], devices, 2, resource="example.com/vf")
    assert [tuple(info) for info in grant.devinfo] == [
        ("a", "example.com-vf-a-device.json", '{"type":"pci","address":"0000:3b:00.2","n":"0"}'),
        ("b", "example.com-vf-b-device.json", '{"type":"pci","address":"x/y","n":"1"}'),
    ]
    assert vf.find_give_words() == {"address", "rdma.name"}


def test_a_share_has_a_file_of_its_own_and_a_slot_none():
    shared = make_reread("a", shares=(1, 3))
    one = spec(devinfo=table(type="pci"))
    assert [
        info.id
        for info in build_grant(one, ["a::1", "a::3"], [replace(shared, device=make_listed("a", shares=4))], 4).devinfo
    ] == [
        "a::1",
        "a::3",
    ]
    assert build_grant(one, ["a"], [make_reread("a")], 1).devinfo != ()
    assert build_grant(replace(one, slots=Slots(2, parse("{n}"))), ["0"], [shared], 2).devinfo == ()


def test_a_file_with_nothing_to_say_is_not_written():
    nothing = spec(devinfo=table(rdma="{rdma.name}"))
    assert build_grant(nothing, ["a"], [make_reread("a", {"rdma.name": Absent("none")})], 1).devinfo == ()
