import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import HostDevice, MatchedPath
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet, PathIndex
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import Listing
from agent.core.language.operators import Equals, Exists, Not
from agent.core.language.template import parse
from agent.core.language.value import Absent, ValueType
from agent.core.struct import replace
from tests.core.builders import PCI, Facts, cdi, clause, give, judge, line, make_listed, mount, node, spec

UNREAD = Absent("EIO", unreadable=True)
GPU = HostDevice("pci", "0000:3b:00.0", "0000:3b:00.0", "0000:3b:00.0", "/sys/devices/3b")
NET = Source("subsystem", ("net",))


def match_one(facts, *specs, nodes=None, device=GPU, previous=None, touched=ALL_DIRTY):
    reader = Facts({device.key: facts}, nodes)
    seen = update_inventory(specs, Listing({PCI: (device,)}), reader, previous, touched)
    return seen.match_results[device.key]


@pytest.mark.parametrize(
    ("facts", "here"),
    [
        ({"vendor": "10de"}, None),
        ({"vendor": "8086"}, "8086"),
        ({}, "absent (no such file)"),
        ({"vendor": ("a", "b")}, "a, b"),
        ({"vendor": ()}, "empty"),
    ],
)
def test_match(facts, here):
    entry = spec(match=clause(line("vendor", "10de", ValueType.HEX)))
    refusal = judge(entry, GPU, Facts({GPU.key: facts}))
    if here is None:
        assert refusal is None
    else:
        assert (refusal.resource, refusal.address, refusal.facts_text) == ("example.com/a", "match.vendor", here)


BOOT = (clause(line("driver", "nvme"), line("boot", True, ValueType.BOOL), name="boot"),)


@pytest.mark.parametrize(
    ("facts", "here"),
    [
        ({"driver": "nvme", "boot": True}, "nvme"),
        ({"driver": "nvme", "boot": False}, None),
        ({"driver": "nvme"}, None),
        ({"driver": "nvme", "boot": UNREAD}, "could not be read (EIO), so it stays excluded"),
        ({"driver": UNREAD, "boot": UNREAD}, "could not be read (EIO), so it stays excluded"),
        ({"driver": UNREAD, "boot": False}, None),
        ({"driver": "ahci", "boot": UNREAD}, None),
        ({}, None),
    ],
)
def test_an_exclusion_fails_closed_where_it_could_not_be_read(facts, here):
    refusal = judge(spec(exclude=BOOT), GPU, Facts({GPU.key: facts}))
    assert (refusal and refusal.facts_text) == here


@pytest.mark.parametrize("test", [Not(Equals("nvme")), Exists(False)])
def test_also_where_absence_would_rule_it_out_or_in(test):
    entry = spec(exclude=(clause(line("driver", "nvme", test=test), name="x"),))
    assert judge(entry, GPU, Facts({GPU.key: {"driver": UNREAD}})) is not None
    assert judge(entry, GPU, Facts({GPU.key: {"driver": "nvme"}})) is None


def test_an_exclusion_of_no_lines_excludes_nothing():
    assert judge(spec(exclude=(clause(name="x"),)), GPU, Facts()) is None


def test_exclude_is_looked_at_before_match():
    reader = Facts({GPU.key: {"driver": "nvme", "boot": True}})
    assert judge(spec(exclude=BOOT, match=clause(line("vendor", "10de"))), GPU, reader).facts_text == "nvme"
    assert (GPU.key, "vendor") not in reader.asked


def test_the_first_entry_in_file_order_takes_and_the_others_are_not_asked():
    never = spec("example.com/never", match=clause(line("vendor", "8086", ValueType.HEX)))
    first = spec("example.com/first", id=(parse("{gone}"),), nodes=(give("n", "/dev/gone"),))
    sighting = match_one({"vendor": "10de"}, never, first, spec("example.com/second"))
    assert sighting.candidate.resource == "example.com/first"
    assert [refusal.resource for refusal in sighting.mismatches] == ["example.com/never"]
    assert sighting.candidate.missing_id_reason == "gone: no such file"
    assert str(sighting.candidate.unhealthy_reason) == "/dev/gone: no such file"


def test_one_thing_seen_by_two_sources_is_taken_once():
    net = HostDevice("subsystem", GPU.key, "eth0", "net:eth0", GPU.directory)
    entries = (spec("example.com/net", source=NET), spec("example.com/pci"))
    seen = update_inventory(entries, Listing({PCI: (GPU,), NET: (net,)}), Facts())
    assert list(seen.match_results) == [GPU.key]
    assert seen.match_results[GPU.key].candidate.resource == "example.com/net"
    assert seen.match_results[GPU.key].devices == (GPU, net)
    assert list(seen.get_resource_candidates()) == [("example.com/net", "")]


def test_ids_are_the_alternatives_that_can_be_written():
    entry = spec(id=tuple(map(parse, ("{uuid}", "{gone}-x", "{serial}", "{serial}", "{empty}", "{odd}"))), shares=2)
    facts = {"uuid": UNREAD, "serial": "A1", "empty": "", "odd": "a::b/c"}
    found = match_one(facts, entry).candidate
    assert found.ids == ("A1", "a:_b_c")
    assert found.missing_id_reason == "uuid: EIO"


def test_an_absent_alternative_could_be_whatever_no_word_contradicts():
    entry = spec(id=(parse("{vendor}:{product}-{serial}-{vendor}"), parse("{vendor}@{place}")))
    found = match_one({"vendor": "04*3", "product": Absent(""), "place": "1-4"}, entry).candidate
    assert found.ids == ("04_3@1-4",)
    assert found.may_get_id_of(make_listed("04_3:6001-A1-04_3"))
    assert not found.may_get_id_of(make_listed("0403:6001-A1-0403"))
    assert not found.may_get_id_of(make_listed("04_3@1-4"))
    assert not match_one({"serial": "A1"}, spec()).candidate.may_get_id_of(make_listed("A1"))


@pytest.mark.parametrize(("said", "numa"), [(0, (0,)), (3, (3,)), (-1, ()), (Absent("none"), ()), ("0", ())])
def test_only_real_numa_nodes_count(said, numa):
    assert match_one({"serial": "A", "numa": said}, spec()).candidate.numa == numa


def test_nodes_and_the_fault_of_those_that_are_missing():
    entry = spec(
        nodes=(
            give("a", "{node}"),
            give("b", "/dev/gone{n}", optional=True),
            give("c", "/dev/gone", optional=True),
            give("d", "/dev/{up}"),
            give("e", "/dev/gone"),
        )
    )
    found = match_one({"serial": "A", "node": "/dev/x", "up": ".."}, entry, nodes={"/dev/x": node("/dev/y")}).candidate
    assert found.nodes == (node("/dev/y"),)
    assert str(found.unhealthy_reason) == "node d: up: '..' cannot be in a path"
    assert str(
        match_one({"serial": "A", "node": "/dev/x"}, spec(nodes=entry.nodes[4:])).candidate.unhealthy_reason
    ) == ("/dev/gone: no such file")


def test_the_nodes_that_were_looked_at_are_consulted_there_or_not():
    entry = spec(nodes=(give("a", "/dev/link"), give("b", "/dev/gone", optional=True)))
    assert match_one({}, entry, nodes={"/dev/link": node("/dev/x")}).read_paths == {
        "/sys/devices/3b",
        "/dev/link",
        "/dev/x",
        "/dev/gone",
    }


@pytest.mark.parametrize(
    ("place", "path", "concerned"),
    [
        ("/sys/devices/a", "/sys/devices/a", True),
        ("/sys/devices/a/b", "/sys/devices/a", True),
        ("/sys/devices/a", "/sys/devices/a/b/c", True),
        ("/sys/devices/ab", "/sys/devices/a", False),
        ("/sys/devices/a", "/sys/devices/ab", False),
        ("/dev/x", "/sys/devices/a", False),
    ],
)
def test_what_a_touched_path_concerns(place, path, concerned):
    assert DirtySet(frozenset({path})).overlaps([place]) is concerned
    assert DirtySet(frozenset({path, "/q"})).overlaps(["/elsewhere", place]) is concerned


def test_touching_adds_up():
    both = DirtySet(frozenset("a")) | DirtySet(subsystems=frozenset({"net"}))
    assert both == DirtySet(frozenset("a"), frozenset({"net"}))
    assert (both | ALL_DIRTY).is_full_rescan
    assert (bool(DirtySet()), bool(both), bool(ALL_DIRTY)) == (False, True, True)
    assert ALL_DIRTY.overlaps(["/x"])
    assert not DirtySet().overlaps(["/x"])


def test_what_nothing_touched_is_taken_over_and_not_read():
    before = update_inventory((spec(),), Listing({PCI: (GPU,)}), Facts({GPU.key: {"serial": "A"}}))
    reader = Facts({GPU.key: {"serial": "B"}})
    after = update_inventory(
        (spec(),), Listing({PCI: (GPU,)}), reader, before, DirtySet(frozenset({"/sys/devices/3c"}))
    )
    assert after.match_results[GPU.key] is before.match_results[GPU.key]
    assert reader.asked == []


def test_another_thing_under_the_same_key_is_looked_at():
    before = update_inventory((spec(),), Listing({PCI: (GPU,)}), Facts({GPU.key: {"serial": "A"}}))
    other = HostDevice("pci", GPU.key, GPU.name, GPU.location, GPU.directory, instance_id="2")
    after = update_inventory((spec(),), Listing({PCI: (other,)}), Facts({GPU.key: {"serial": "B"}}), before, DirtySet())
    assert after.match_results[GPU.key].candidate.ids == ("B",)


# Narrowing. A machine is a tree of directories with facts in them; a device's words come from its own directory, from
# that of another one, or from a node below /dev.

DIRECTORIES = ("/sys/devices/a", "/sys/devices/a/b", "/sys/devices/a/b/c", "/sys/devices/ab", "/sys/devices/d")
NODES = ("/dev/x", "/dev/d/y")
MACHINES = st.fixed_dictionaries(
    {
        "there": st.sets(st.sampled_from(DIRECTORIES)),
        "says": st.dictionaries(st.sampled_from(DIRECTORIES), st.sampled_from(["10de", "8086"])),
        "nodes": st.dictionaries(st.sampled_from(NODES), st.integers(0, 2)),
    }
)
DEVICES = {name: HostDevice("pci", name, name, name, name) for name in DIRECTORIES}  # scanners keep the objects
PARTNER = dict(zip(DIRECTORIES, reversed(DIRECTORIES), strict=True))
ENTRIES = (
    spec("example.com/a", match=clause(line("own", "10de")), id=(parse("{own}-{partner}"), parse("{place}"))),
    spec("example.com/b", exclude=(clause(line("partner", "10de"), name="x"),), nodes=(give("n", "/dev/x"),)),
    spec("example.com/c", nodes=(give("n", "{path}"),)),
)


class Machine:
    """A `Reader` of such a machine."""

    def __init__(self, machine):
        self.machine = machine

    @property
    def listing(self):
        return Listing({PCI: tuple(DEVICES[name] for name in sorted(self.machine["there"]))})

    def read_fact(self, device, word):
        where = {"own": device.directory, "partner": PARTNER[device.directory]}
        if word in where:
            return self.machine["says"].get(where[word], Absent("silent"))
        return {"place": device.location, "path": "/dev/d/y"}.get(word, Absent("unknown"))

    def find_node(self, path):
        minor = self.machine["nodes"].get(path)
        return Absent("no such file") if minor is None else node(path, minor)

    def get_read_paths(self, device):
        return frozenset({device.directory, PARTNER[device.directory]})


def find_changed_paths(before, after):
    says = {path for path in DIRECTORIES if before["says"].get(path) != after["says"].get(path)}
    return says | {path for path in NODES if before["nodes"].get(path) != after["nodes"].get(path)}


@given(MACHINES, st.lists(MACHINES, max_size=3), st.sets(st.sampled_from(DIRECTORIES + NODES)))
def test_a_narrow_look_sees_what_a_full_one_does(machine, changes, more):
    seen = update_inventory(ENTRIES, Machine(machine).listing, Machine(machine))
    for change in changes:
        touched = DirtySet(frozenset(find_changed_paths(machine, change) | more))
        reader = Machine(change)
        seen = update_inventory(ENTRIES, reader.listing, reader, seen, touched)
        assert seen == update_inventory(ENTRIES, reader.listing, reader)
        machine = change


PATHS = st.lists(st.sampled_from(["a", "ab", "b", "0"]), min_size=1, max_size=4).map(
    lambda names: "/" + "/".join(names)
)


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sets(PATHS, max_size=3)), max_size=6), st.sets(PATHS, max_size=3))
def test_places_are_found_as_if_each_was_asked(rests, paths):
    places, touched = PathIndex(), DirtySet(frozenset(paths))
    for count, (key, rests_on) in enumerate(rests):
        places.add(key, rests_on)
        expected = {key for key, rests_on in rests[: count + 1] if touched.overlaps(rests_on)}
        assert places.find_dirty_keys(touched) == expected


def test_the_directories_of_nodes_are_known():
    places = PathIndex()
    places.add("x", ["/sys/devices/a", "/dev/x", "/dev/bus/usb/001/002"])
    assert places.watched_directories == {"/dev", "/dev/bus/usb/001"}


def test_what_the_kernel_does_not_tell_of_is_watched():
    places = PathIndex()
    places.add("x", ["/opt/vendor/lib.so", "/etc/cdi/", "/sys/devices/a", "/sys", "/proc/x", "/dev", "/", "/top"])
    assert places.watched_directories == {"/opt/vendor", "/etc/cdi", "/"}


def test_a_directory_with_all_that_is_in_it():
    places = PathIndex()
    places.add("x", ["/etc/cdi/"])
    places.add("y", ["/etc/other"])
    for path in ("/etc/cdi", "/etc/cdi/a.json", "/etc"):
        assert "x" in places.find_dirty_keys(DirtySet(frozenset({path})))
    assert places.find_dirty_keys(DirtySet(frozenset({"/etc/cdi2"}))) == set()


def one_giving(reader, **gives):
    seen = update_inventory([spec(**gives)], Listing({PCI: (GPU,)}), reader)
    return seen.match_results[GPU.key]


def test_a_mount_that_is_missing_is_a_fault_unless_it_is_optional():
    lib = mount("lib", "/opt/{driver}/*.so")
    reader = Facts({GPU.key: {"driver": "acme"}}, there={"/opt/acme/*.so": Absent("nothing fits")})
    assert str(one_giving(reader, mounts=(lib,)).candidate.unhealthy_reason) == "/opt/acme/*.so: nothing fits"
    assert str(one_giving(reader, mounts=(replace(lib, optional=True),)).candidate.unhealthy_reason) == ""
    there = Facts(
        {GPU.key: {"driver": "acme"}}, there={"/opt/acme/*.so": (MatchedPath("/opt/acme/a.so", "/opt/acme/a.so.1"),)}
    )
    seen = one_giving(there, mounts=(lib,))
    assert str(seen.candidate.unhealthy_reason) == ""
    assert {"/opt/acme/", "/opt/acme/a.so"} <= seen.read_paths


def test_a_mount_with_an_absent_word_is_a_fault_unless_it_is_optional():
    lib = mount("lib", "/opt/{driver}")
    assert str(one_giving(Facts(), mounts=(lib,)).candidate.unhealthy_reason) == "mount lib: driver: no such file"
    assert str(one_giving(Facts(), mounts=(replace(lib, optional=True),)).candidate.unhealthy_reason) == ""


def test_what_a_device_says_fits_itself_alone():
    reader = Facts({GPU.key: {"driver": "*"}}, there={"/opt/[*]": (MatchedPath("/opt/*", "/opt/*"),)})
    seen = one_giving(reader, mounts=(mount("lib", "/opt/{driver}"),))
    assert str(seen.candidate.unhealthy_reason) == ""
    assert "/opt/*" in seen.read_paths


def test_a_cdi_name_in_no_spec_is_a_fault_that_says_where_it_was_looked_for():
    reader = Facts({GPU.key: {"serial": "7"}}, specs={"a.com/gpu=8": "/etc/cdi/a.json"})
    seen = one_giving(reader, cdi=(cdi("a.com/gpu={serial}"),))
    assert str(seen.candidate.unhealthy_reason) == "a.com/gpu=7 is in no CDI spec in /etc/cdi"
    assert "/etc/cdi/" in seen.read_paths
    assert str(one_giving(reader, cdi=(cdi("a.com/gpu={serial}", unchecked=True),)).candidate.unhealthy_reason) == ""
    assert str(one_giving(reader, cdi=(cdi("a.com/gpu=8"),)).candidate.unhealthy_reason) == ""
    assert str(one_giving(reader, cdi=(cdi("a.com/gpu=-{serial}", unchecked=True),)).candidate.unhealthy_reason) != ""
    absent = one_giving(reader, cdi=(cdi("a.com/gpu={uuid}", unchecked=True),)).candidate
    assert str(absent.unhealthy_reason) == "cdi a.com/gpu={uuid}: uuid: no such file"
