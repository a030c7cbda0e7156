"""Programs of entries: those of the machine before its gates, and those of a device before its container starts."""

import json
import os
import time
from pathlib import Path

import pytest

from agent import prepare_runner
from agent.core.struct import replace
from agent.kubelet.messages import v1beta1
from agent.tracker import look_thread
from device_agent_lab.simulated.errors import AllocationError
from tests.agent.rig import BAR, FOO, SHORT, entry
from tests.agent.test_moves_into_pod import ENTRIES, Node
from tests.sockets import until


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(prepare_runner, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(prepare_runner, "LAST_SECONDS", 0.02)


def argv(script, *more):
    return json.dumps(["/bin/sh", "-c", script, *more])


def make_prepare_entry(script, more="", gate='gate.on = { "/proc/acme" = "on" }'):
    return entry(FOO, f"prepare.load = {{ run = {argv(script)}{more} }}\n{gate}")


ABSENT = ', when = { "/proc/acme" = { not = "on" } }'


def waits(agent):
    return [one.reason for one in agent.tracker.device_lists.unlisted if one.resource == FOO]


# ------------------------------------------------------------------- prepare


async def test_it_is_run_before_the_gate_and_opens_it(rig):
    rig.plug("foo0")
    rig.tree.file("/proc/acme", "off")
    rig.serve(make_prepare_entry(f"echo on > {rig.tree.at('/proc/acme')}", ABSENT))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 1)
        assert waits(agent) == []


async def test_one_that_hangs_holds_up_nobody_else_and_ends_with_the_agent(rig, tmp_path):
    rig.plug("foo0", "bar0")
    rig.serve(
        make_prepare_entry(
            f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 1000", ', timeout = "10m"'
        ),
        BAR,
    )
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(BAR, 1)
        await rig.streaming(FOO, BAR)
        await until((tmp_path / "pid").exists)
        assert waits(agent) == ["waits for prepare.load: it is to be run"]
        assert rig.kubelet.capacity(FOO) == 0
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not Path(f"/proc/{pid}").exists())


async def test_what_fails_is_said_and_run_again_and_not_at_each_look(rig, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare_runner, "FIRST_SECONDS", 1000.0)
    monkeypatch.setattr(prepare_runner, "LAST_SECONDS", 1000.0)
    rig.plug("foo0")
    rig.serve(make_prepare_entry(f"echo x >> {tmp_path}/runs; echo no such module; exit 1", ABSENT))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        said = "waits for prepare.load: /bin/sh ended with 1: no such module"
        await until(lambda: waits(agent) == [said])
        for name in ("foo1", "foo2", "foo3"):
            rig.plug(name)
            agent.tracker.request_look()
            await agent.tracker.wait_for_look()
        assert waits(agent) == [said] * 4
        assert (tmp_path / "runs").read_text() == "x\n"


async def test_it_is_tried_again(rig, tmp_path, at_once):
    rig.plug("foo0")
    script = f"echo x >> {tmp_path}/runs; test $(wc -l < {tmp_path}/runs) -ge 3"
    rig.serve(make_prepare_entry(script, gate=""))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 1)
        assert waits(agent) == []
        for _ in range(3):
            agent.tracker.request_look()
            await agent.tracker.wait_for_look()
        assert (tmp_path / "runs").read_text() == "x\n" * 3  # and without a clause it has been run for good


async def test_a_clause_that_holds_again_has_it_run_again(rig, tmp_path, at_once):
    acme, go = rig.tree.at("/proc/acme"), tmp_path / "go"
    os.mkfifo(go)
    rig.plug("foo0")
    rig.tree.file("/proc/acme", "on")
    rig.serve(make_prepare_entry(f"echo x >> {tmp_path}/runs; read go < {go}; echo on > {acme}", ABSENT))
    await rig.kubelet.start()
    gate = os.open(go, os.O_RDWR)
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 1)
        assert not (tmp_path / "runs").exists()
        for runs in (1, 2):
            acme.write_text("off")
            agent.tracker.request_look()
            await rig.allocatable(FOO, 0)
            os.write(gate, b"go\n")
            await rig.allocatable(FOO, 1)
            assert (tmp_path / "runs").read_text() == "x\n" * runs
    os.close(gate)


async def test_only_what_a_look_has_not_found_to_be_of_use_is_run_again(rig, tmp_path, at_once, monkeypatch):
    """However long the look takes that says whether its clause has ended."""
    take_look = look_thread.run_look

    def slow(*args, **how):
        time.sleep(0.2)  # as a host does that answers slowly: longer than until the next run
        return take_look(*args, **how)

    monkeypatch.setattr(look_thread, "run_look", slow)
    rig.plug("foo0")
    rig.tree.file("/proc/acme", "off")
    rig.serve(make_prepare_entry(f"echo x >> {tmp_path}/runs; echo on > {rig.tree.at('/proc/acme')}", ABSENT))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 1)
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_one_that_is_of_use_at_last_is_seen_to_be(rig, tmp_path, at_once):
    """Though it ends as it ended before, and nothing else happens."""
    acme, runs = rig.tree.at("/proc/acme"), tmp_path / "runs"
    rig.plug("foo0")
    rig.tree.file("/proc/acme", "off")
    rig.serve(make_prepare_entry(f"echo x >> {runs}; test $(wc -l < {runs}) -lt 3 || echo on > {acme}", ABSENT))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 1)
    assert runs.read_text() == "x\n" * 3


async def test_a_program_that_need_not_be_there_leaves_it_to_the_gate(rig):
    rig.plug("foo0", "bar0")
    rig.tree.file("/proc/acme", "off")
    missing = 'prepare.x = { run = ["/no/such"], optional = true }\ngate.on = { "/proc/acme" = "on" }'
    rig.serve(entry(FOO, missing), entry(BAR, 'prepare.x.run = ["/no/such"]'))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await until(lambda: waits(agent) == ['waits for gate.on./proc/acme = "on", here off'])
        rig.tree.file("/proc/acme", "on")
        agent.tracker.request_look()
        await rig.allocatable(FOO, 1)
        reasons = {one.resource: one.reason for one in agent.tracker.device_lists.unlisted}
        assert reasons == {BAR: "waits for prepare.x: /no/such: it is not there"}


async def test_two_entries_that_want_the_same_have_it_run_once(rig, tmp_path):
    rig.plug("foo0", "bar0")
    same = f"prepare.load.run = {argv(f'echo x >> {tmp_path}/runs')}"
    rig.serve(entry(FOO, same), entry(BAR, same.replace("load", "other")))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 1)
        await rig.allocatable(BAR, 1)
        assert (tmp_path / "runs").read_text() == "x\n"


async def test_a_reload_runs_what_is_new_and_not_what_stayed(rig, tmp_path):
    rig.plug("foo0")
    rig.serve(make_prepare_entry(f"echo x >> {tmp_path}/runs", gate=""))
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 1)
        rig.serve(BAR, make_prepare_entry(f"echo x >> {tmp_path}/runs", gate=""))
        await rig.reload(agent)
        assert (tmp_path / "runs").read_text() == "x\n"
        rig.serve(make_prepare_entry(f"echo y >> {tmp_path}/runs", gate=""))
        await rig.reload(agent)
        await until(lambda: (tmp_path / "runs").read_text() == "x\ny\n")
        await rig.allocatable(FOO, 1)


async def test_systemd_gives_a_start_more_time_while_one_runs(rig, monkeypatch):
    told = []
    monkeypatch.setattr(prepare_runner.systemd, "notify", lambda **fields: told.append(fields))
    rig.plug("foo0")
    rig.serve(make_prepare_entry("true", ', timeout = "40s"', gate=""))
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(FOO, 1)
    assert [one["EXTEND_TIMEOUT_USEC"] for one in told if "EXTEND_TIMEOUT_USEC" in one] == [45_000_000]


# ------------------------------------------------------------------- prestart


def make_prestart_entry(script, more="", count="", **how):
    return entry(FOO, f"prestart.reset = {{ run = {argv(script, 'sh', '{id}')}{more} }}\n{count}", **how)


async def node(rig, *entries):
    rig.new_kubelet(limits=replace(SHORT, pre_start=30.0))
    rig.plug("foo0", "foo1", "bar0")
    rig.serve(*entries)
    await rig.kubelet.start()


async def test_it_is_run_of_each_device_at_each_start(rig, tmp_path):
    await node(rig, make_prestart_entry(f'echo "$1" >> {tmp_path}/runs'), BAR)
    async with rig.agent():
        await rig.streaming(FOO, BAR)
        await rig.kubelet.allocate("pod", "c", {FOO: 2, BAR: 1})
        assert not (tmp_path / "runs").exists()
        for _ in range(2):
            await rig.kubelet.start_container("pod", "c")
        runs = (tmp_path / "runs").read_text().split()
        assert sorted(runs) == ["foo0", "foo0", "foo1", "foo1"]
        client = await rig.client(BAR)
        assert not (await client.peer.plugin.get_device_plugin_options(v1beta1.Empty())).pre_start_required


async def test_its_environment_tells_of_the_device(rig, tmp_path):
    more = "prestart.second.run = " + argv(f"env | grep ^DEVICE_AGENT | sort > {tmp_path}/env")
    await node(rig, make_prestart_entry("true", "", more + "\nreplicas = 4"))
    async with rig.agent():
        await rig.streaming(FOO)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        (id_,) = rig.kubelet.get_held_ids(FOO)
        name, _, share = id_.partition("::")
        await rig.kubelet.start_container("pod", "c")
    said = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert said == {
        "DEVICE_AGENT_RESOURCE": FOO,
        "DEVICE_AGENT_ID": name,
        "DEVICE_AGENT_NAME": f"/dev/{name}",
        "DEVICE_AGENT_NODE": f"/dev/{name}",
        "DEVICE_AGENT_NODES": f"/dev/{name}",
        "DEVICE_AGENT_SHARES": share,
    }


@pytest.mark.parametrize(
    ("script", "more", "said"),
    [
        ("echo card is stuck; exit 1", "", "/bin/sh ended with 1: card is stuck"),
        ("kill -KILL $$", "", "/bin/sh was ended by SIGKILL"),
        ("sleep 1000", ', timeout = "50ms"', "/bin/sh did not end within 0.05 s"),
    ],
)
async def test_what_fails_keeps_the_container_from_starting(rig, script, more, said):
    await node(rig, make_prestart_entry(script, more))
    async with rig.agent():
        await rig.streaming(FOO)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        (id_,) = rig.kubelet.get_held_ids(FOO)
        with pytest.raises(AllocationError, match=f"{FOO} {id_}: prestart.reset: {said}"):
            await rig.kubelet.start_container("pod", "c")
        assert rig.kubelet.pods["pod"].is_active  # and the kubelet asks again


async def test_a_clause_says_whether(rig, tmp_path):
    await node(
        rig, make_prestart_entry(f'echo "$1" >> {tmp_path}/runs', ", when = { asked = 1, './x' = { exists = false } }")
    )
    async with rig.agent():
        await rig.streaming(FOO)
        await rig.kubelet.allocate("two", "c", {FOO: 2})
        await rig.kubelet.start_container("two", "c")
        rig.kubelet.remove_pod("two")
        await rig.kubelet.allocate("one", "c", {FOO: 1})
        await rig.kubelet.start_container("one", "c")
        assert len((tmp_path / "runs").read_text().split()) == 1


async def test_a_device_that_is_gone_is_not_started_with(rig, tmp_path):
    await node(rig, make_prestart_entry(f'echo "$1" >> {tmp_path}/runs'))
    async with rig.agent():
        await rig.streaming(FOO)
        await rig.kubelet.allocate("pod", "c", {FOO: 2})
        rig.unplug("foo0")
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {"foo0"})
        with pytest.raises(AllocationError, match=f"{FOO} foo0: the resource does not contain it now"):
            await rig.kubelet.start_container("pod", "c")
        assert not (tmp_path / "runs").exists()


async def test_of_a_device_that_is_in_the_pod_nothing_is_run(rig, tmp_path):
    more = f"prestart.a.run = {argv(f'echo x >> {tmp_path}/runs')}\n{ENTRIES['net']}"
    rig.serve(f'[[resource]]\nname = "{FOO}"\nmoves_into_pod = true\n{more}')
    rig.new_kubelet(limits=replace(SHORT, pre_start=30.0))
    await rig.kubelet.start()
    moving = Node(rig)
    async with rig.agent() as agent:
        await rig.allocatable(FOO, 1)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        await rig.kubelet.start_container("pod", "c")
        moving.go()
        await moving.looked(agent)
        assert agent.tracker.inventory.in_pod_keys
        await rig.kubelet.start_container("pod", "c")
        assert (tmp_path / "runs").read_text() == "x\n"


async def test_an_unhealthy_one_may_be_what_it_heals(rig, tmp_path):
    health = "health.state.holds = { '/proc/acme' = 'on' }"
    rig.tree.file("/proc/acme", "on")
    await node(rig, make_prestart_entry(f"echo on > {rig.tree.at('/proc/acme')}", "", health))
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        rig.tree.file("/proc/acme", "off")
        agent.tracker.request_look()
        await rig.until(lambda: rig.kubelet.unhealthy(FOO) == {"foo0", "foo1"})
        await rig.kubelet.start_container("pod", "c")
        agent.tracker.request_look()
        await rig.allocatable(FOO, 2)


async def test_a_reload_that_brings_or_takes_it_registers_anew(rig, tmp_path):
    await node(rig, FOO)
    async with rig.agent() as agent:
        await rig.streaming(FOO)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        rig.serve(make_prestart_entry(f"echo x >> {tmp_path}/runs"))
        await rig.reload(agent)
        await rig.until(lambda: rig.registers(FOO) == 2 and rig.kubelet.streams(FOO) == 1)
        await rig.kubelet.start_container("pod", "c")
        assert (tmp_path / "runs").read_text() == "x\n"
        rig.serve(FOO)
        await rig.reload(agent)
        await rig.until(lambda: rig.registers(FOO) == 3 and rig.kubelet.streams(FOO) == 1)
        await rig.kubelet.start_container("pod", "c")
        assert (tmp_path / "runs").read_text() == "x\n"


async def test_the_lab_runs_none(rig, tmp_path):
    await node(
        rig,
        make_prestart_entry(f"echo x >> {tmp_path}/runs", "", f"prepare.a.run = {argv(f'echo x >> {tmp_path}/runs')}"),
    )
    async with rig.agent(runs_programs=False):
        await rig.allocatable(FOO, 2)
        await rig.kubelet.allocate("pod", "c", {FOO: 1})
        await rig.kubelet.start_container("pod", "c")
    assert not (tmp_path / "runs").exists()
    assert os.listdir(tmp_path) == []
