"""Devices that are in pods: which may be, which are, and what they are meanwhile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.check import Check, CheckVerdict
from agent.core.entry.clause_check import ClauseCheck
from agent.core.entry.resource_spec import Source
from agent.core.inventory.device import Device, DeviceList, Health, HostDevice
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.in_pod import MovableDevice, diff_movable_devices, find_movable_devices
from agent.core.inventory.inventory import update_inventory
from agent.core.inventory.listing import Listing
from agent.core.language.template import parse
from agent.core.language.value import Absent, ValueType
from agent.core.lists.build_lists import build_lists
from agent.core.struct import replace
from tests.core.builders import Facts, clause, line, spec

NET = Source("net")
PCI = Source("pci")
FUNCTION = "/sys/devices/pci0000:00/0000:00:01.0/0000:3b:00.0"
KEY = f"{FUNCTION}/net/eth0"
IN_KEY = "pci:0000:3b:00.0"
HERE = HostDevice("net", KEY, "eth0", "net:pci-0000:3b:00.0", KEY, "", "7")
VF = HostDevice("pci", IN_KEY, "0000:3b:00.0", "0000:3b:00.0", FUNCTION, "", "8")
CARRIED = ("netdev.name", "rdma.name")


def net(**more):
    return spec(source=NET, id=(parse("{pci.address}-net"),), moved_words=(), **more)


def vf(**more):
    return spec(source=PCI, id=(parse("{address}"),), moved_words=CARRIED, **more)


def check(name, *lines, when=None):
    return Check(name, ClauseCheck(clause(*lines, name=f"health.{name}")), when)


CARRIER = check("carrier", line("carrier", True, ValueType.BOOL))
PRESENT = check("present", line("pci.present", True, ValueType.BOOL))
FACTS = {
    KEY: {"pci.address": "0000:3b:00.0", "carrier": True, "pci.present": True, "numa": 1},
    IN_KEY: {"present": True},
}


class Node:
    """Looks and lists after one another."""

    def __init__(self, entry, host, facts=None):
        self.entry, self.host = entry, host
        self.facts = {key: {**said} for key, said in (facts or FACTS).items()}
        self.held = frozenset()
        self.there = True
        self.others = ()
        self.seen = None
        self.told = {}

    def look(self, touched=ALL_DIRTY):
        before = self.told
        assembled = {name: name for name in before}
        holds = lambda device: bool(self.held & set(device.list_ids()))
        who = find_movable_devices((self.entry,), before, assembled, holds)
        if not touched.is_full_rescan:
            touched |= DirtySet(keys=diff_movable_devices(self.seen.movable_devices, who))
        listing = Listing({self.entry.source: ((self.host,) if self.there else ()) + self.others})
        self.seen = update_inventory((self.entry,), listing, Facts(self.facts), self.seen, touched, movable_devices=who)
        made = build_lists(self.seen, (self.entry,), self.held, before, 0.0)
        self.told = made.lists
        return [(device.id, device.health.value, str(device.reason)) for device in self.told["example.com/a"].devices]


ID = "0000:3b:00.0-net"
WELL = [(ID, "Healthy", "")]


@pytest.fixture(params=[ALL_DIRTY, DirtySet()], ids=["sweep", "event"])
def dirty_set(request):
    return request.param


def test_held_and_gone_it_is_as_it_was(dirty_set):
    node = Node(net(checks=(CARRIER, PRESENT)), HERE)
    assert node.look() == WELL
    node.held = frozenset({ID})
    before = node.told["example.com/a"]
    node.there = False
    assert node.look(dirty_set) == WELL
    assert node.told["example.com/a"] is before
    assert node.seen.in_pod_keys == {KEY}
    assert node.look(dirty_set) == WELL
    said = [one.result.verdict for one in node.seen.get_candidate(KEY).check_results]
    assert said == [CheckVerdict.IGNORED, CheckVerdict.PASS]


def test_gone_and_not_held_it_is_absent(dirty_set):
    node = Node(net(), HERE)
    node.look()
    node.there = False
    assert node.look(dirty_set) == [(ID, "Unhealthy", "absent")]


def test_let_go_and_still_gone_it_is_absent(dirty_set):
    node = Node(net(), HERE)
    node.look()
    node.held, node.there = frozenset({ID}), False
    assert node.look() == WELL
    node.held = frozenset()
    assert node.look(dirty_set) == [(ID, "Unhealthy", "absent")]
    assert node.seen.in_pod_keys == frozenset()


def test_without_moves_into_pod_what_a_pod_holds_is_absent_like_all_else(dirty_set):
    node = Node(replace(net(), moved_words=None), HERE)
    node.look()
    node.held, node.there = frozenset({ID}), False
    assert node.look(dirty_set) == [(ID, "Unhealthy", "absent")]


def test_back_it_is_judged_again(dirty_set):
    entry = net(match=clause(line("carrier", True, ValueType.BOOL)))
    node = Node(entry, HERE)
    node.look()
    node.held, node.there = frozenset({ID}), False
    node.look()
    node.there = True
    assert node.look(dirty_set) == WELL
    node.facts[KEY]["carrier"] = False
    node.look(dirty_set | DirtySet(keys=frozenset({KEY})))
    assert str(node.told["example.com/a"].devices[0].reason).startswith("no longer offered: match.carrier")


def test_back_under_another_name_it_keeps_its_id_and_is_not_there_twice(dirty_set):
    node = Node(net(), HERE)
    node.look()
    node.held, node.there = frozenset({ID}), False
    node.look()
    other = replace(HERE, key=f"{FUNCTION}/net/eth9", name="eth9", instance_id="9")
    node.others = (other,)
    node.facts[other.key] = node.facts[KEY]
    assert node.look(dirty_set) == WELL
    assert node.told["example.com/a"].devices[0].key == other.key
    assert node.seen.in_pod_keys == frozenset()


@pytest.mark.parametrize("present", [False, True, Absent("EIO", unreadable=True)])
def test_only_while_its_function_is_there(dirty_set, present):
    node = Node(net(), HERE)
    node.look()
    node.held, node.there = frozenset({ID}), False
    node.look()
    node.facts[IN_KEY]["present"] = present
    gone = [(ID, "Unhealthy", "its PCI function 0000:3b:00.0 is gone")]
    assert node.look(dirty_set | DirtySet(keys=frozenset({KEY}))) == (gone if present is False else WELL)


def test_the_function_is_the_nearest_above_it():
    node = Node(net(), HERE)
    node.look()
    node.held, node.there = frozenset({ID}), False
    reader = Facts(node.facts)
    who = find_movable_devices((node.entry,), node.told, {}, lambda _: True)
    update_inventory((node.entry,), Listing({NET: ()}), reader, None, movable_devices=who)
    assert (IN_KEY, "present") in reader.asked


def test_software_has_no_function_to_be_gone():
    host = HostDevice("net", "/sys/devices/virtual/net/va", "va", "net:va", "/sys/devices/virtual/net/va", "", "1")
    node = Node(replace(net(), id=(parse("{name}"),)), host, {host.key: {"name": "va"}})
    assert node.look() == [("va", "Healthy", "")]
    node.held, node.there = frozenset({"va"}), False
    assert node.look() == [("va", "Healthy", "")]


def test_after_a_restart_nothing_but_the_list_is_known(dirty_set):
    remembered = Device(
        ID,
        HERE.location,
        KEY,
        Health.UNHEALTHY,
        "not seen since the agent started",
        numa=(1,),
        instance_id=HERE.instance_id,
    )
    node = Node(net(match=clause(line("carrier", True, ValueType.BOOL)), checks=(CARRIER,)), HERE, {KEY: {}})
    node.told = {"example.com/a": DeviceList("example.com/a", (remembered,))}
    node.held, node.there = frozenset({ID}), False
    assert node.look() == WELL
    assert node.told["example.com/a"].devices[0].numa == (1,)


VF_FACTS = {
    IN_KEY: {
        "address": "0000:3b:00.0",
        "netdev.name": "eth0",
        "rdma.name": "mlx5_0",
        "driver": "mlx5_core",
        "present": True,
    }
}
MATCH = clause(line("netdev.name", "eth0"), line("driver", "mlx5_core"))


@pytest.mark.parametrize("word", CARRIED)
def test_a_function_is_away_while_one_of_what_it_carried_is(dirty_set, word):
    checks = (check("link", line("netdev.carrier", True, ValueType.BOOL)), check("driver", line("driver", "mlx5_core")))
    facts = {IN_KEY: {**VF_FACTS[IN_KEY], "netdev.carrier": True}}
    node = Node(vf(match=MATCH, checks=checks), VF, facts)
    well = [("0000:3b:00.0", "Healthy", "")]
    assert node.look() == well
    node.held = frozenset({"0000:3b:00.0"})
    del node.facts[IN_KEY][word]
    assert node.look(dirty_set | DirtySet(keys=frozenset({IN_KEY}))) == well
    assert [one.result.verdict for one in node.seen.get_candidate(IN_KEY).check_results] == [
        CheckVerdict.IGNORED,
        CheckVerdict.PASS,
    ]
    node.facts[IN_KEY]["driver"] = "vfio-pci"  # frozen as well, but for the check that is of the function
    assert node.look(dirty_set | DirtySet(keys=frozenset({IN_KEY}))) == well
    assert node.seen.get_candidate(IN_KEY).check_results[1].result.verdict is CheckVerdict.FAIL
    node.facts[IN_KEY] |= {word: "back"}
    node.look(dirty_set | DirtySet(keys=frozenset({IN_KEY})))
    assert node.seen.in_pod_keys == frozenset()


def test_a_function_that_carried_nothing_is_never_away():
    node = Node(
        vf(match=clause(line("driver", "mlx5_core"))), VF, {IN_KEY: {"address": "0000:3b:00.0", "driver": "mlx5_core"}}
    )
    node.look()
    node.held = frozenset({"0000:3b:00.0"})
    node.facts[IN_KEY]["driver"] = "vfio-pci"
    node.look()
    assert node.seen.in_pod_keys == frozenset()
    assert str(node.told["example.com/a"].devices[0].reason).startswith("no longer offered")


def test_a_function_that_is_gone_is_absent_and_not_away():
    node = Node(vf(), VF, VF_FACTS)
    node.look()
    node.held, node.there = frozenset({"0000:3b:00.0"}), False
    assert node.look() == [("0000:3b:00.0", "Unhealthy", "absent")]


def test_another_function_in_its_place_is_not_away():
    node = Node(vf(match=MATCH), VF, VF_FACTS)
    node.look()
    node.held = frozenset({"0000:3b:00.0"})
    del node.facts[IN_KEY]["netdev.name"]
    node.host = replace(VF, instance_id="9")
    node.look()
    assert node.seen.in_pod_keys == frozenset()


@pytest.mark.parametrize(
    ("word", "goes_on"),
    [
        ("pci.present", True), ("pci/state", True), ("pci.pf.netdev.carrier", True), ("host.rdma_netns", True),
        ("options.mode", True), ("/sys/module/x", True), ("carrier", False), ("./carrier", False), ("ports", False),
        ("own", False), ("parent.driver", False),
    ],
)  # fmt: skip
def test_which_checks_go_on(word, goes_on):
    own = {"own": None, "options.mode": None}
    entry = net(checks=(check("a", line(word, "x")),), derived_words={} if word not in own else {word: Said()})
    node = Node(entry, HERE, {KEY: {"pci.address": "0000:3b:00.0"}, IN_KEY: {"present": True}})
    node.look()
    node.held, node.there = frozenset({ID}), False
    node.look()
    (said,) = node.seen.get_candidate(KEY).check_results
    assert (said.result.verdict is not CheckVerdict.IGNORED) is goes_on


class Said:
    def compute_value(self, facts):
        return "x"


def test_who_may_be_away():
    device = Device("a", "net:a", "key a", Health.HEALTHY)
    shared = Device("b", "net:b", "key b", Health.HEALTHY, shares=2)
    of_pci = Device("c", "0000:3b:00.0", IN_KEY, Health.HEALTHY)
    lists = {
        "example.com/a": DeviceList("example.com/a", (device, shared, of_pci)),
        "example.com/b": DeviceList("example.com/b", (replace(device, id="d", key="key d"),)),
    }
    entries = (spec("example.com/x"), net(), vf(is_addition=True), spec("example.com/b", source=NET))
    found = find_movable_devices(entries, lists, {}, lambda one: one.id != "b")
    assert {key: (one.entry, one.resource) for key, one in found.items()} == {
        "key a": (1, "example.com/a"),
        IN_KEY: (2, "example.com/a"),
    }
    assert find_movable_devices((spec(source=NET),), lists, {}, lambda _: True) == {}


def test_of_a_name_with_words_the_list_has_another():
    device = Device("a", "net:a", "key a", Health.HEALTHY)
    lists = {"example.com/ice": DeviceList("example.com/ice", (device,))}
    entry = replace(net(), name="example.com/{driver}", name_template=parse("example.com/{driver}"))
    found = find_movable_devices((entry,), lists, {"example.com/ice": entry.name}, lambda _: True)
    assert found == {"key a": MovableDevice(0, "example.com/ice", device)}


def test_those_that_differ():
    one, other = (MovableDevice(0, "example.com/a", Device(id_, "p", "k", Health.HEALTHY)) for id_ in "ab")
    unwell = one._replace(device=replace(one.device, health=Health.UNHEALTHY))
    assert diff_movable_devices({"k": one}, {"k": unwell}) == frozenset()
    assert (
        diff_movable_devices({"k": one}, {"k": other})
        == diff_movable_devices({"k": one}, {})
        == diff_movable_devices({}, {"k": one})
        == {"k"}
    )


def test_what_its_entry_turned_down_while_it_was_there_is_not_well_for_being_away(dirty_set):
    node = Node(net(match=clause(line("carrier", True, ValueType.BOOL))), HERE)
    node.look()
    node.held = frozenset({ID})
    node.facts[KEY]["carrier"] = False
    turned_down = node.look()
    assert turned_down[0][2].startswith("no longer offered: match.carrier")
    node.there = False
    for _ in range(3):
        assert node.look(dirty_set) == [(ID, "Unhealthy", "absent")]
    node.facts[KEY]["carrier"], node.there = True, True
    assert node.look(dirty_set) == WELL
    node.there = False
    assert node.look(dirty_set) == WELL


def test_shares_that_are_too_many_are_not_the_device():
    device = Device("a", "net:a", "key a", Health.HEALTHY, shares=2)
    more = replace(device, shares=4, first_share=2)
    lists = {"example.com/a": DeviceList("example.com/a", (device, more))}
    assert find_movable_devices((net(),), lists, {}, lambda _: True)["key a"].device is device


STEPS = st.sampled_from(
    ["go", "come", "hold", "hold", "release", "function goes", "function is back", "link", "no link"]
)


@given(st.lists(STEPS, max_size=12))
def test_whatever_happens_events_see_what_a_sweep_would_and_nothing_held_is_unhealthy_for_being_away(steps):
    node = Node(net(match=clause(line("carrier", True, ValueType.BOOL)), checks=(PRESENT,)), HERE)
    node.look()
    for step in steps:
        said = node.facts[KEY]
        match step:
            case "go":
                node.there = False
            case "come":
                node.there = said["pci.present"]
            case "hold":
                node.held |= {id_ for device in node.told["example.com/a"].devices for id_ in device.list_ids()}
            case "release":
                node.held = frozenset()
            case "function goes" | "function is back":
                present = step == "function is back"
                node.there &= present
                said["pci.present"] = node.facts[IN_KEY]["present"] = present
            case _:
                said["carrier"] = step == "link"
        by_event = node.look(DirtySet(keys=frozenset({KEY})))
        told = node.told
        assert node.look(ALL_DIRTY) == by_event, step
        assert len({id_ for id_, *_ in by_event}) == len(by_event)
        for device in told["example.com/a"].devices:
            if device.key in node.seen.in_pod_keys:
                assert ID in node.held
                assert (device.health is Health.HEALTHY) is node.facts[IN_KEY]["present"]
