"""Short builders of entries, host devices and inventories for the tests of the core."""

from agent.core.entry.check import StepContext
from agent.core.entry.kernel_log import KernelLogHistory
from agent.core.entry.resource_spec import CdiGive, EnvGive, MountGive, NodeGive, ResourceSpec, Source
from agent.core.inventory import facts as core_facts
from agent.core.inventory import matching as core_judge
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList, DeviceNode, Health, HostDevice
from agent.core.inventory.inventory import Inventory
from agent.core.inventory.listing import Listing
from agent.core.inventory.matching import MatchResult, Mismatch
from agent.core.language.clause import Clause, ClauseLine, Origin
from agent.core.language.json_template import JsonTable
from agent.core.language.operators import Equals
from agent.core.language.template import parse
from agent.core.language.value import Absent, ValueType
from agent.core.reason import Reason, ReasonCause

HERE = Origin("10-test.toml", 1)
PCI = Source("pci")


def step_check(check, state, result, current_time, look_distance_s):
    """Return the state after a look, and the time of the next one, without a kernel log."""
    return check.criterion.step(check, state, result, StepContext(current_time, look_distance_s, KernelLogHistory()))


def no_kubelet(text):
    """The reason of a resource whose kubelet is down."""
    return Reason(ReasonCause.KUBELET, text)


def refusal(text):
    """The reason of a resource that the kubelet refuses."""
    return Reason(ReasonCause.REFUSED, text)


def make_check_reason(check, text):
    """The reason of a device of which a check fails."""
    return Reason(ReasonCause.CHECK, text, check)


def as_reason(reason):
    """A reason; of a text one by which nothing is decided."""
    return Reason.from_text(reason) if isinstance(reason, str) else reason


def line(word, operand, kind=ValueType.TEXT, test=None):
    return ClauseLine(f"match.{word}", word, kind, test or Equals(operand), repr(operand), HERE)


def clause(*lines, name="match"):
    return Clause(name, lines, HERE)


def give(name, path, to=None, permissions="rw", optional=False, **more):
    targets = to if isinstance(to, tuple) else (to or path,)
    return NodeGive(name, parse(path), tuple(map(parse, targets)), permissions, optional, HERE, **more)


def env(name, value, separator=None, condition=None, member_key=None, **more):
    said = parse(value) if isinstance(value, str) else value
    return EnvGive(name, parse(name), said, separator, HERE, condition, member_key and parse(member_key), **more)


def mount(name, path, to=(), read_only=False, optional=False, **more):
    targets = to if isinstance(to, tuple) else (to,)
    return MountGive(name, parse(path), tuple(map(parse, targets)), read_only, optional, HERE, **more)


def cdi(name, via="field", unchecked=False, condition=None):
    return CdiGive(name, parse(name), via, unchecked, HERE, condition)


def table(**members):
    """A table that becomes JSON, of texts."""
    return JsonTable(tuple((name, parse(text)) for name, text in members.items()))


def spec(name="example.com/a", **more):
    fields = {
        "origin": HERE,
        "class_name": None,
        "source": PCI,
        "match": clause(),
        "exclude": (),
        "id": (parse("{serial}"),),
        "shares": None,
        "nodes": (),
        "env": (),
        "registration": "socket",
    }
    return ResourceSpec(name, **fields | more)


def node(path="/dev/x", minor=0):
    return DeviceNode(path, "c", 240, minor)


def host(place, key=None, instance_id="1", source="pci"):
    return HostDevice(source, key or f"key {place}", place, place, instance_id=instance_id)


def candidate(
    device, *ids, resource="example.com/a", numa=(), nodes=(), fault="", missing_id_reason="", possible_ids=(), **more
):
    return Candidate(resource, device, ids, missing_id_reason, numa, nodes, as_reason(fault), possible_ids, **more)


def look_at(*candidates, turned_down=()):
    """A look that saw these candidates, and host devices that every entry turned down."""
    sightings = {one.device.key: MatchResult((one.device,), one, (), frozenset()) for one in candidates}
    for device in turned_down:
        refusal = Mismatch("example.com/a", "match.vendor", '"10de"', "8086", HERE)
        sightings[device.key] = MatchResult((device,), None, (refusal,), frozenset())
    return Inventory(Listing(), sightings)


def make_listed(name, place=None, reason="", **more):
    """A device as it is listed after `candidate(host(place), name)`."""
    place = place or name
    fields = {"location": place, "key": f"key {place}", "health": Health.HEALTHY, "instance_id": "1"}
    return Device(name, reason=as_reason(reason), **fields | more)


def lists(*snapshots):
    return {snapshot.resource: snapshot for snapshot in snapshots}


def snapshot(*devices, resource="example.com/a"):
    return DeviceList(resource, devices)


def judge(entry, device, reader):
    return core_judge.match_entry(entry, core_facts.Facts(entry, device, reader))


class Known:
    """The facts of one device as a plain mapping. `things WORD` are the devices of a list relation."""

    def __init__(self, facts):
        self.facts = facts

    def __call__(self, word):
        return self.facts.get(word, Absent("no such file"))

    def __repr__(self):
        return repr(self.facts)

    def follow_relation(self, word):
        return self(f"things {word}")

    def filled_from(self, other):
        """The same, what is absent taken from another."""
        filled = {}
        for word, value in self.facts.items():
            if isinstance(value, tuple) and word.startswith("things"):
                filled[word] = tuple(thing.filled_from(other) for thing in value)
            else:
                filled[word] = other(word) if isinstance(value, Absent) else value
        return Known(filled)


class Facts:
    """A `Reader` over plain mappings, which counts what it is asked."""

    def __init__(self, facts=None, nodes=None, places=None, there=None, specs=None):
        self.facts = facts or {}
        self.nodes = nodes or {}
        self.places = places or {}
        self.there = there or {}
        self.specs = specs or {}
        self.asked = []

    def read_fact(self, device, word):
        self.asked.append((device.key, word))
        return self.facts.get(device.key, {}).get(word, Absent("no such file"))

    def read_texts(self, device, path):
        said = self.read_fact(device, path)
        return said if isinstance(said, tuple) or (isinstance(said, Absent) and said.unreadable) else (said,)

    def list_names(self, device, path):
        return self.read_fact(device, f"names {path}")

    def find_related_devices(self, device, word):
        return self.read_fact(device, f"things {word}")

    def find_node(self, path):
        return self.nodes.get(path, Absent("no such file"))

    def find_paths(self, pattern):
        return self.there.get(pattern, Absent("nothing fits"))

    def find_cdi_spec(self, name):
        return self.specs.get(name, Absent("is in no CDI spec in /etc/cdi"))

    cdi_directories = ("/etc/cdi",)

    def get_read_paths(self, device):
        return frozenset({device.directory or f"/sys/devices/{device.key}"}) | self.places.get(device.key, frozenset())
