"""Allocate under anything: whatever comes and goes, each answer is of one list and one configuration, or a refusal."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.allocation.allocation import Allocation
from agent.config.load import load
from agent.core.grants.grant import Grant, GrantRefusedError
from agent.core.health.evaluation import evaluate_one_look
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import build_lists
from agent.kubelet.allocate_response import encode_allocate_response
from agent.registry import Registry
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import run_look
from tests.tree import Tree

FOO, BAR = "example.com/foo", "example.com/bar"
ENTRY = """[[resource]]
name = "{name}"
source = {{ node = "/dev/{kind}[0-9]*" }}
id = "{{name}}"
accept.collides = "each is asked for alone"
{shares}
[resource.give.nodes]
it = {{ path = "{{node}}", to = "/dev/v{version}/{{name}}" }}
[resource.give.env]
VERSION = "{version}"
IDS = {{ value = "{{id}}", join = "," }}
OFFERED = "{{offered}}"
ASKED = "{{asked}}"
"""
NAMES = [f"{kind}{number}" for kind in ("foo", "bar") for number in range(4)]
HELD = frozenset(NAMES[:6])  # of bar2 and bar3 pods hold nothing: they go at once where they are configured otherwise


class Machine:
    """A host on disk, what is configured of it, and who answers: with no event loop's timing but the test's own."""

    def __init__(self, top: Path) -> None:
        self.tree = Tree(top / "host")
        self.etc = top / "etc"
        (self.etc / "resources.d").mkdir(parents=True)
        self.registry = Registry()
        self.inventory, self.specs, self.told = Inventory(), (), {}
        self.candidates = {}
        self.published = set()  # what was told: resource, version, how many
        self.version = 0
        self.asked = []
        self.allocation = Allocation(
            HostView(self.tree.root),
            self.registry,
            self,
            self,
            generated_specs=None,
            devinfo_files=None,
            find_change_time=lambda *_: None,
            save=None,
        )
        for number in range(4):
            self.plug("foo", number)
            self.plug("bar", number)
        self.configure(shares=False)

    def plug(self, kind, number):
        path = f"/dev/{kind}{number}"
        if not self.tree.at(path).exists():
            self.tree.node(path, f"c 240:{number + 10 * (kind == 'bar')}")

    def unplug(self, kind, number):
        self.tree.at(f"/dev/{kind}{number}").unlink(missing_ok=True)

    def configure(self, *, shares):
        self.version += 1
        more = "replicas = 2" if shares else ""
        texts = [ENTRY.format(name=FOO, kind="foo", version=self.version, shares="")]
        texts.append(ENTRY.format(name=BAR, kind="bar", version=self.version, shares=more))
        (self.etc / "resources.d" / "a.toml").write_text("".join(texts))
        configuration = load(str(self.etc))
        assert configuration.findings == ()
        self.specs = configuration.resources
        self.see()

    def see(self):
        """Look, and tell; what pods hold stays listed."""
        self.inventory, _ = run_look(HostView(self.tree.root), self.specs, Inventory(), ALL_DIRTY)
        self.candidates = evaluate_one_look(self.inventory.get_resource_candidates())
        moving = True
        while moving:
            assembly = build_lists(self.inventory, self.specs, HELD, self.told, 0.0, candidates=self.candidates)
            self.device_lists, self.told, moving = assembly, assembly.lists, assembly.awaits_delivery
            for name, snapshot in self.told.items():
                self.registry.publish(snapshot)
                self.published.add((name, self.version, snapshot.id_count))

    # What the allocation asks of the held IDs.

    def add_grant(self, ids):
        self.asked.extend(ids)

    def __contains__(self, id_):
        return False

    async def confirm(self, timeout_s):
        return False

    # What the allocation asks of a tracker.

    def find_entry(self, resource):
        return next((spec for spec in self.specs if spec.name == resource), None)

    def request_look(self, dirty_set):
        del dirty_set

    async def wait_for_look(self):
        self.see()

    def healthy(self, resource):
        devices = self.registry.get_list(resource).devices
        return [id for device in devices if device.health.value == "Healthy" for id in device.list_ids()]  # noqa: A001


def judge(machine, resource, ids, answer):
    """Whether an answer is of one list and one configuration, and of nothing else than what was asked for."""
    if isinstance(answer, GrantRefusedError):
        assert 0 < len(answer.text) <= 200
        assert answer.text.isprintable()
        return
    assert isinstance(answer, Grant)
    wanted = sorted(set(ids))
    version = int(answer.env["VERSION"])
    assert (resource, version, int(answer.env["OFFERED"])) in machine.published
    assert answer.ids == tuple(wanted)
    assert int(answer.env["ASKED"]) == len(wanted)
    devices = sorted({id.partition("::")[0] for id in wanted})  # noqa: A001
    assert answer.env["IDS"] == ",".join(devices)
    assert [(node.host, node.container) for node in answer.nodes] == [
        (f"/dev/{device}", f"/dev/v{version}/{device}") for device in devices
    ]
    for node in answer.nodes:
        number = int(node.host[-1]) + 10 * ("bar" in node.host)
        assert (node.node.major, node.node.minor) == (240, number)


KINDS = st.sampled_from(["foo", "bar"])
IDS = st.lists(st.sampled_from([*NAMES, "foo0", "bar2::0", "bar2::1", "foo9", ""]), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["plug", "unplug"]), KINDS, st.integers(0, 3)),
        st.tuples(st.just("see")),
        st.tuples(st.just("configure"), st.booleans()),
        st.tuples(st.just("ask"), st.sampled_from([FOO, BAR]), IDS),
        st.tuples(st.just("wait")),
    ),
    max_size=14,
)


async def play(machine, steps):
    """All in turn; an answer is waited for only where that is said."""
    asking = []

    async def ask(resource, ids):
        try:
            answer = await machine.allocation.allocate(resource, ids)
        except GrantRefusedError as refused:
            answer = refused
        judge(machine, resource, ids, answer)

    for what, *how in steps:
        match what:
            case "plug" | "unplug":
                getattr(machine, what)(*how)
            case "see":
                machine.see()
            case "configure":
                machine.configure(shares=how[0])
            case "ask":
                asking.append(asyncio.create_task(ask(*how)))
                await asyncio.sleep(0)  # it begins; what it reads, it reads beside what comes next
            case "wait":
                await asyncio.gather(*asking)
    await asyncio.gather(*asking)
    machine.see()
    for resource in (FOO, BAR):
        for id in machine.healthy(resource):  # noqa: A001  the API's own word
            one, other = [await machine.allocation.allocate(resource, [id]) for _ in range(2)]
            assert encode_allocate_response([one]) == encode_allocate_response([other])
            judge(machine, resource, [id], one)


@settings(max_examples=40)
@given(STEPS)
def test_each_answer_is_of_one_list_and_the_same_again_is_the_same(steps):
    top = Path(tempfile.mkdtemp())
    try:
        asyncio.run(play(Machine(top), steps))
    finally:
        shutil.rmtree(top)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


async def test_an_id_that_is_repeated_counts_once(machine):
    machine.configure(shares=True)
    once = await machine.allocation.allocate(BAR, ["bar2::0"])
    again = await machine.allocation.allocate(BAR, ["bar2::0", "bar2::0"])
    assert again == once
    assert again.env["ASKED"] == "1"


async def test_at_once_during_a_reload(machine):
    """Answers that were begun before another configuration are wholly of the one or of the other."""
    asking = [asyncio.create_task(machine.allocation.allocate(FOO, [f"foo{n % 4}"])) for n in range(20)]
    await asyncio.sleep(0)
    machine.configure(shares=True)
    asking += [asyncio.create_task(machine.allocation.allocate(FOO, [f"foo{n % 4}"])) for n in range(20)]
    answers = await asyncio.gather(*asking)
    assert {answer.env["VERSION"] for answer in answers} == {"1", "2"}
    for n, answer in enumerate(answers):
        judge(machine, FOO, [f"foo{n % 4}"], answer)
