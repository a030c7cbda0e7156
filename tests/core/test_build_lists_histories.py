"""Any history of a machine, its pods and its configuration: rules for each list on the way."""

import random
from functools import cache

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.core.entry.resource_spec import ShareMap, Slots
from agent.core.inventory.device import Health, HostDevice, make_list_sort_key, split_share
from agent.core.inventory.inventory import Inventory, update_inventory
from agent.core.inventory.listing import Listing
from agent.core.language.template import parse
from agent.core.language.value import Absent, ValueType
from agent.core.lists.build_lists import DeviceLists, build_lists
from agent.core.lists.list_builder import SLOT_KEY_PREFIX
from agent.core.lists.list_inputs import FORGET_SECONDS
from agent.core.lists.resource_names import EMPTY_SECONDS, GeneratedName
from agent.core.struct import replace
from tests.core.builders import PCI, clause, line, spec

RESOURCES = ("example.com/a", "example.com/b", "example.com/c")
FANNED, SHARED = "example.com/{model}", "example.com/all"  # one resource for each model; all devices together
MODELS = ["a", "m1", "m2", Absent("no model")]  # one of them has another entry
IDS = {"serial": ("{serial}",), "either": ("{serial}", "{serial}@{place}"), "place": ("{kind}@{place}",)}
PLACES = st.sampled_from(["p1", "p2", "p3", "p10"])
UNREADABLE = Absent("EIO", unreadable=True)


class Machine:
    """What is plugged in where; a `Reader` of it."""

    def __init__(self):
        self.plugged = {}
        self.plugs = 0
        self.open = True

    def plug(self, place, **says):
        self.plugs += 1
        key = f"/sys/{place}/{says.pop('number')}"
        self.plugged[place] = (HostDevice("pci", key, place, place, instance_id=str(self.plugs)), says)

    def says(self, place, **words):
        if place in self.plugged:
            self.plugged[place][1].update(words)

    def look(self, specs):
        return update_inventory(specs, Listing({PCI: tuple(device for device, _ in self.plugged.values())}), self)

    def read_fact(self, device, word):
        if word == "open":
            return self.open
        says = {"place": device.location} | self.plugged[device.location][1]
        return says.get(word, Absent("unknown"))

    def find_node(self, path):
        return Absent("no such file")

    def get_read_paths(self, device):
        return frozenset()


def reuse_objects(seen, before):
    """The look in which whatever is as it was is the same object, as in one that looks at what is touched."""
    sightings = {
        key: before.match_results[key] if before.match_results.get(key) == sighting else sighting
        for key, sighting in seen.match_results.items()
    }
    offers = {**Inventory(seen.listing, sightings).get_resource_candidates()}
    for offer, found in before.get_resource_candidates().items():
        if list(map(id, found.values())) == list(map(id, offers.get(offer, {}).values())):
            offers[offer] = found
    return replace(seen, match_results=sightings, _resource_candidates=offers)


BUSY = (clause(line("wait.busy", True, ValueType.BOOL), name="wait.busy"),)
OPEN = (clause(line("open", True, ValueType.BOOL), name="gate.open"),)


@cache
def entry(name, shares, ids, adds=False):
    """Takes what says its kind; the last takes two kinds, and so what others leave."""
    excluded = {RESOURCES[0]: "bcf", RESOURCES[1]: "acf", RESOURCES[2]: "bf", FANNED: "abc", SHARED: "bc"}[name]
    by = ShareMap("mode", (("one", 1), ("four", 4))) if shares == "by" else None
    return spec(
        name,
        shares=None if by else shares,
        share_map=by,
        id=tuple(map(parse, IDS[ids])),
        exclude=tuple(clause(line("kind", kind), name=kind) for kind in excluded),
        name_template=parse(name) if name == FANNED else None,
        slots=Slots(shares or 2, parse("slot-{n}")) if name == SHARED else None,
        wait=BUSY,
        gate=OPEN if name in {RESOURCES[1], FANNED} else (),
        is_addition=adds,
    )


def owners(snapshots):
    """Every id of every list, with its resource and device."""
    return [
        (name, resource, device)
        for resource, snapshot in snapshots.items()
        for device in snapshot.devices
        for name in device.list_ids()
    ]


class Life(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.machine = Machine()
        self.entries = {}
        self.held = {}
        self.now = 0.0
        self.snapshots = {}
        self.assembly = DeviceLists({})
        self.seen = Inventory()
        self.configured = ()
        self.chance = random.Random(1)

    @initialize(shares=st.sampled_from([None, 3, "by"]), ids=st.sampled_from(sorted(IDS)), slots=st.booleans())
    def start(self, shares, ids, slots):
        self.entries = {(name, False): (shares, ids) for name in (*RESOURCES, FANNED)}
        if slots:
            self.entries[SHARED, False] = 2, ids
        self.settle()

    @rule(
        place=PLACES,
        serial=st.sampled_from(["S1", "S2", "S3", UNREADABLE]),
        kind=st.sampled_from("abcf"),
        number=st.integers(0, 1),
        numa=st.sampled_from([0, 1, -1]),
        model=st.sampled_from(MODELS),
    )
    def plug(self, place, serial, kind, number, numa, model):
        self.machine.plug(
            place, serial=serial, kind=kind, number=number, numa=numa, model=model, busy=False, mode="one"
        )
        self.settle()

    @rule(places=st.sets(PLACES, min_size=1))
    def unplug(self, places):
        for place in places:
            self.machine.plugged.pop(place, None)
        self.settle()

    @rule(one=PLACES, other=PLACES, number=st.integers(0, 1))
    def change_places(self, one, other, number):
        moved = {one: other, other: one}
        before = {place: self.machine.plugged.pop(place) for place in moved if place in self.machine.plugged}
        for place, (_, says) in before.items():
            self.machine.plug(moved[place], number=number, **says)
        self.settle()

    @rule(place=PLACES, serial=st.sampled_from(["S1", "S2", UNREADABLE]))
    def reread(self, place, serial):
        """A word says something else although nothing was plugged."""
        self.machine.says(place, serial=serial)
        self.settle()

    @rule(place=PLACES, kind=st.sampled_from("abcf"))
    def rebind(self, place, kind):
        self.machine.says(place, kind=kind)
        self.settle()

    @rule(place=PLACES, model=st.sampled_from(MODELS))
    def rename(self, place, model):
        self.machine.says(place, model=model)
        self.settle()

    @rule(place=PLACES, mode=st.sampled_from(["one", "four", "five", Absent("no mode")]))
    def divide(self, place, mode):
        self.machine.says(place, mode=mode)
        self.settle()

    @rule(place=PLACES, busy=st.booleans())
    def occupy(self, place, busy):
        self.machine.says(place, busy=busy)
        self.settle()

    @rule()
    def gate(self):
        self.machine.open = not self.machine.open
        self.settle()

    @rule(
        name=st.sampled_from([*((name, False) for name in (*RESOURCES, FANNED, SHARED)), (RESOURCES[0], True)]),
        config=st.none() | st.tuples(st.sampled_from([None, 1, 2, 5, "by"]), st.sampled_from(sorted(IDS))),
        order=st.permutations((*RESOURCES, FANNED)),
    )
    def configure(self, name, config, order):
        place = {other: index for index, other in enumerate(order)}
        if config is None:
            self.entries.pop(name, None)
        elif name[0] == SHARED:
            self.entries[name] = 2 if config[0] == "by" else config[0], config[1]
        else:
            self.entries[name] = config
        self.entries = dict(sorted(self.entries.items(), key=lambda item: place.get(item[0][0], 9)))
        if (RESOURCES[0], False) not in self.entries:
            self.entries.pop((RESOURCES[0], True), None)
        self.settle()

    @rule(choice=st.integers(0, 30))
    def grant(self, choice):
        healthy = [name for name, _, device in owners(self.snapshots) if device.health is Health.HEALTHY]
        if healthy:
            name = healthy[choice % len(healthy)]
            self.held[name] = next(resource for known, resource, _ in owners(self.snapshots) if known == name)
            self.settle(looked=False)

    @rule(choice=st.integers(0, 30))
    def release(self, choice):
        if self.held:
            del self.held[sorted(self.held)[choice % len(self.held)]]
            self.settle(looked=False)

    @rule(seconds=st.sampled_from([1.0, FORGET_SECONDS / 2, FORGET_SECONDS]))
    def wait(self, seconds):
        self.now += seconds
        self.settle(looked=False)

    @rule()
    def restart(self):
        """What the state file keeps is enough."""
        for resource, snapshot in self.snapshots.items():
            devices = [
                type(device)(
                    device.id,
                    device.location,
                    device.key,
                    Health.UNHEALTHY,
                    "not seen",
                    device.numa,
                    device.shares,
                    device.first_share,
                    instance_id=device.instance_id,
                )
                for device in snapshot.devices
            ]
            self.snapshots[resource] = type(snapshot)(resource, tuple(devices))
        fanned = {name: GeneratedName(one.written_name) for name, one in self.assembly.generated_names.items()}
        self.assembly = replace(self.assembly, generated_names=fanned, unchanged_lists={})
        self.settle()

    # One round after another, until nothing moves

    def specs(self):
        return tuple(entry(name, *config, adds) for (name, adds), config in self.entries.items())

    def assemble(self, seen):
        state = (seen, self.configured, frozenset(self.held), self.snapshots, self.now)
        fanned = self.assembly.generated_names
        assembly = build_lists(*state, generated_names=fanned, unchanged_lists=self.assembly.unchanged_lists)
        assert assembly == build_lists(*state, generated_names=fanned), "what is settled makes a difference"
        return assembly

    def settle(self, *, looked=True):
        self.now += 1.0
        if looked:
            self.configured = self.specs()
            self.seen = reuse_objects(self.machine.look(self.configured), self.seen)
        seen = self.seen
        for _ in range(4):
            assembly = self.assemble(seen)
            self.check_step(seen, assembly)
            self.assembly, self.snapshots = assembly, dict(assembly.lists)
            if not assembly.awaits_delivery:
                break
        else:
            raise AssertionError("it moves for ever")
        self.check_rest(seen)

    def check_step(self, seen, assembly):
        before, after = owners(self.snapshots), owners(assembly.lists)
        names = [name for name, _, _ in after]
        assert len(names) == len(set(names)), "an id is listed twice"
        had = {name: resource for name, resource, _ in before}
        has = {name: resource for name, resource, _ in after}
        for name, resource in self.held.items():
            assert has.get(name) == resource, f"held {name} left its list"
        for name, resource in has.items():
            assert had.get(name, resource) == resource, f"{name} joined {resource} before it left {had[name]}"
        self.check_hardware(seen, before, after, assembly)
        self.check_absence(seen, before, has, assembly)
        mixed = list(seen.match_results)
        self.chance.shuffle(mixed)
        other = self.assemble(Inventory(seen.listing, {key: seen.match_results[key] for key in mixed}))
        assert other == assembly, "the order of discovery shows"
        known = {device: device for snapshot in self.snapshots.values() for device in snapshot.devices}
        for _, _, device in after:
            assert known.get(device, device) is device, "an equal device is another object"

    def check_hardware(self, seen, before, after, assembly):
        """Only what is there and taken is Healthy; no host device is offered twice; it keeps its id."""
        offered = {}
        for _, resource, device in after:
            if device.health is not Health.HEALTHY:
                continue
            if device.key.startswith(SLOT_KEY_PREFIX):
                lent = [found for sighting in seen.match_results.values() for found in sighting.slot_candidates]
                assert any(not found.reason for found in lent)
                continue
            candidate = seen.match_results[device.key].candidate
            assert candidate.resource == resource
            assert not candidate.reason
            assert device.id in candidate.ids
            assert candidate.share_mark == device.share_mark
            assert (candidate.device.location, candidate.device.instance_id) == (device.location, device.instance_id)
            assert offered.setdefault(device.key, device.id) == device.id
        for name, resource, device in before:
            sighting = seen.match_results.get(device.key)
            host = sighting.devices[0] if sighting else None
            if host is None or (host.location, host.instance_id) != (device.location, device.instance_id):
                continue
            if name in self.held and device.key in offered:
                assert offered[device.key] == device.id, f"a pod holds it as {name}"
            candidate = sighting.candidate
            owner = assembly.written_names.get(resource) or resource
            if assembly.written_names.get(resource) != self.assembly.written_names.get(resource):
                continue
            if candidate is None or candidate.resource not in {resource, owner} or device.id not in candidate.ids:
                continue
            if (candidate.written_name or candidate.resource) != owner:
                continue
            if candidate.share_mark == device.share_mark and device.absent_since is None:
                kept = [other for _, place, other in after if (place, other.key) == (resource, device.key)]
                assert device.id in {other.id for other in kept}, "a device lost its id in its place"

    def check_absence(self, seen, before, has, assembly):
        """What the host does not show stays for its time; when it is to go is told."""
        for name, resource, device in before:
            gone = device.key not in seen.match_results and device.absent_since is None
            if device.key.startswith(SLOT_KEY_PREFIX):
                gone = (SHARED, False) in self.entries and not any(
                    one.slot_candidates for one in seen.match_results.values()
                )
                gone = gone and device.absent_since is None and int(name[5:]) < (self.entries[SHARED, False][0] or 2)
            wanted = any(
                device.id in sighting.candidate.ids for sighting in seen.match_results.values() if sighting.candidate
            )
            if gone and not wanted and resource in assembly.written_names:
                assert name in has or device.first_share, f"{name} was forgotten at once"
        held = {split_share(name)[0] for name in self.held}
        going = [
            device.absent_since + FORGET_SECONDS
            for _, _, device in owners(assembly.lists)
            if device.absent_since is not None and device.share_base not in held
        ]
        going += [
            one.empty_since + EMPTY_SECONDS for one in assembly.generated_names.values() if one.empty_since is not None
        ]
        assert assembly.next_at == min(going, default=None)
        assert not going or assembly.next_at > self.now
        for name, one in assembly.generated_names.items():
            assert assembly.written_names[name] == one.written_name == FANNED
            assert one.empty_since is None or not assembly.lists[name].devices

    def check_rest(self, seen):
        """Nothing moves: another round changes nothing, and everything is listed or has a reason."""
        again = self.assemble(seen)
        left_out = {(one.resource, one.key) for one in self.assembly.unlisted}
        assert {(one.resource, one.key) for one in again.unlisted} == left_out
        assert all(again.lists[name] is snapshot for name, snapshot in self.snapshots.items())
        stamps = {key: sighting.devices[0].instance_id for key, sighting in seen.match_results.items()}
        listed = {
            (resource, device.key)
            for resource, snapshot in self.snapshots.items()
            for device in snapshot.devices
            if device.instance_id == stamps.get(device.key)
        }
        listed |= {(self.assembly.written_names.get(resource) or resource, key) for resource, key in listed}
        left_out |= {(self.assembly.written_names.get(resource) or resource, key) for resource, key in left_out}
        taken = {
            (sighting.candidate.resource, key) for key, sighting in seen.match_results.items() if sighting.candidate
        }
        assert taken <= listed | left_out, "something is neither listed nor has a reason"

    @invariant()
    def lists_are_in_order_with_one_rule_for_topology(self):
        for snapshot in self.snapshots.values():
            assert list(snapshot.devices) == sorted(snapshot.devices, key=make_list_sort_key)
            assert len({bool(device.numa) for device in snapshot.devices}) <= 1
            assert all((device.health is Health.HEALTHY) == (not device.reason) for device in snapshot.devices)

    @invariant()
    def with_nothing_held_and_all_well_everything_is_listed(self):
        """Waits out whatever is remembered, on a copy."""
        there = [says for _, says in self.machine.plugged.values()]
        serials = [says["serial"] for says in there]
        if self.held or UNREADABLE in serials or len(set(serials)) < len(serials) or not self.machine.open:
            return
        if any(says["busy"] or says["mode"] not in {"one", "four"} or says["model"] == MODELS[-1] for says in there):
            return
        if any(says["model"] == "a" for says in there):
            return
        seen, snapshots, fanned = self.machine.look(self.specs()), self.snapshots, self.assembly.generated_names
        for later in (1, 2, 2, 2, 2):
            now = self.now + later * FORGET_SECONDS
            assembly = build_lists(seen, self.specs(), frozenset(), snapshots, now, generated_names=fanned)
            snapshots, fanned = assembly.lists, assembly.generated_names
        assert assembly.unlisted == ()
        candidates = (found for key in seen.match_results for found in seen.find_candidates(key))
        models = {found.resource for found in candidates if found.written_name}
        assert fanned.keys() == models, "a name that nobody wants stays"
        assert all(device.health is Health.HEALTHY for _, _, device in owners(snapshots))


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=20)


def test_an_absent_device_keeps_the_numa_nodes_of_its_list():
    """A list with some devices without a NUMA node has none at all, so what becomes absent in it has none either."""
    life = Life()
    life.start(shares=None, ids="either", slots=False)
    for kind, serial, numa in (("b", "S2", -1), ("a", "S1", 0), ("b", "S1", 0), ("a", "S2", 0)):
        life.plug(kind=kind, model="a", numa=numa, number=0, place="p1", serial=serial)
        life.lists_are_in_order_with_one_rule_for_topology()
