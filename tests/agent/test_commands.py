"""Commands to a running agent: status, explain, drain, and their output."""

import asyncio
import json
import os
import re
import signal
import sys

import pytest

from agent.control import commands as control_commands
from agent.control.active_config import ActiveConfig
from agent.control.commands import build_commands
from agent.core.report.status_report import build_status_report as status_of
from tests.agent.process import run_agent
from tests.agent.rig import BAR, FOO, entry
from tests.agent.test_health import CARDS, NPU, ONE, TWO, card, ill, say
from tests.cli.conftest import TOP, device_agent
from tests.core.test_metrics import get_value, read


@pytest.fixture
async def node(rig):
    for address in CARDS:
        rig.tree.pci(address, state="ready")
    rig.plug("foo0", "foo1", "bar0")
    rig.serve(
        FOO, card('holds = { "./state" = "ready" }\nlatch = true\nevery = "100ms"\nreason = "it is {state}"', STATE)
    )
    await rig.kubelet.start()
    return rig


STATE = 'let.state = "./state"'


async def ask(node, *words):
    done = await asyncio.to_thread(
        device_agent, *words, "--config", str(node.etc), "--root", str(node.tree.top), TZ="UTC"
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


async def ready(node, process):
    await node.until(lambda: process.said("READY"))
    await node.until(node.control.exists)


async def end(process):
    process.send(signal.SIGTERM)
    assert await process.ended() == 0


async def status(node, *words):
    code, out, err = await ask(node, "status", "-o", "json", *words)
    assert out, err
    return code, json.loads(out)


async def hold(node, resource, number):
    """Have a pod hold so many of a resource, and the agent know it of the kubelet."""
    given = await node.kubelet.allocate("pod", "c", {resource: number})
    while True:
        _, said = await status(node)
        if {one["name"]: one["in_use"] for one in said["resources"]}[resource] == number:
            return given


async def test_a_storm_of_changes_is_not_reckoned_one_by_one(node, monkeypatch):
    """For one who waits for another status than he has, of changes that make none."""
    monkeypatch.setattr(control_commands, "PAUSE_SECONDS", 3600.0)
    reckoned = []

    def counting(moment, *more):
        reckoned.append(moment)
        return status_of(moment, *more)

    monkeypatch.setattr(control_commands, "status_of", counting)
    monkeypatch.setattr(control_commands, "compute_revision", lambda said: "the same")
    async with node.agent() as agent:
        await agent.tracker.wait_for_look()
        status = build_commands(ActiveConfig(agent, str(node.etc)), agent)["status"]
        waiting = asyncio.create_task(status({"unlike": "the same", "seconds": 1.0}))
        while not waiting.done():
            agent.status._notify_waiters()
            await asyncio.sleep(0.001)
        assert waiting.result()["revision"] == "the same"
    assert len(reckoned) in {1, 2}  # when he asks, and when he has waited; a busy host may take as long for the first


async def test_a_quiet_day_is_short(node):
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        await hold(node, FOO, 1)
        code, out, err = await ask(node, "status")
        assert (code, err) == (0, "")
        lines = [line.split() for line in out.splitlines()]
        assert lines[0][:2] == ["●", "device-agent"]
        assert "2 of 2 streaming" in out
        assert "4 of 4 devices Healthy" in out
        assert lines[2] == ["RESOURCE", "STATE", "HEALTHY", "IN", "USE", "SINCE"]
        assert lines[3][:4] == [FOO, "streaming", "2/2", "1"]
        assert lines[4][:4] == [NPU, "streaming", "2/2", "0"]
        assert out.endswith("There are no problems.\n")
        code, out, _ = await ask(node, "status", FOO)
        assert code == 0
        assert NPU not in out
        assert "(2 resources, " in out  # of the configuration, whatever was asked for
        assert f" · {FOO} streaming · 2 of 2 devices Healthy" in out
        held = next(line for line in out.splitlines() if "default/pod" in line)
        assert held.startswith("foo")
        assert (await ask(node, "status", "a.example/none"))[0] == 4
        await end(process)
    code, out, err = await ask(node, "status")
    assert (code, out) == (3, "")
    assert "no agent is running" in err
    assert "systemctl status device-agent" in err


ENDS = [
    (0, ("metrics",)),
    (0, ("rescan",)),
    (0, ("reload",)),
    (0, ("drain", "foo1")),
    (0, ("undrain", "foo1")),
    (0, ("clear", "foo1")),
    (1, ("metrics", "--textfile", "/no/such/directory/a.prom")),
    (4, ("status", "a.example/none")),
    (4, ("rescan", "nothing")),
    (4, ("drain", "nothing")),
    (4, ("undrain", "nothing")),
    (4, ("clear", "nothing")),
]


async def test_what_a_running_agent_is_asked_ends_with(node):
    """The other exit codes are in tests/cli/test_exit_codes.py."""
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        for code, words in ENDS:
            ended, out, err = await ask(node, *words)
            assert ended == code, (words, out, err)
            assert code == 0 or (out, bool(err)) == ("", True), words


async def test_problems_come_first_with_the_next_step(node):
    say(node, "broken")
    async with run_agent(node) as process:
        await ready(node, process)
        await ill(node, ONE)
        code, out, _ = await ask(node, "status")
        assert code == 1
        assert "1 problem:" in out
        line = next(line for line in out.splitlines() if line.startswith(f"  1 {NPU}"))
        assert line.startswith(f"  1 {NPU}  {ONE} Unhealthy since ")
        assert line.endswith("state: it is broken")
        assert f"next: device-agent explain {ONE}" in out
        code, said = await status(node)
        assert (code, said["verdict"]) == (1, "attention")
        (problem,) = said["attention"]
        assert (problem["subject"], problem["what"], problem["devices"]) == (NPU, "Unhealthy", [ONE])
        assert problem["next"] == [f"device-agent explain {ONE}"]
        await end(process)


async def test_it_is_watched_until_somebody_ends_that(node):
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        words = (sys.executable, "-m", "agent.cli.main", "status", "--watch", "-o", "jsonl")
        watching = await asyncio.create_subprocess_exec(
            *words, "--config", str(node.etc), "--root", str(node.tree.top),
            stdout=asyncio.subprocess.PIPE, cwd=TOP, env={**os.environ, "PYTHONPATH": str(TOP)},
        )  # fmt: skip
        first = json.loads(await watching.stdout.readline())
        assert (first["verdict"], first["changes"]) == ("well", [])
        say(node, "broken")
        while True:  # the device, then its list at the kubelet
            said = json.loads(await watching.stdout.readline())
            if said["verdict"] == "attention":
                break
        assert [(one["id"], one["to"]) for one in said["changes"]] == [(ONE, "Unhealthy")]
        assert said["revision"] != first["revision"]
        watching.send_signal(signal.SIGINT)
        assert await watching.wait() == 130
        watching._transport.close()
        await end(process)


async def test_an_answer_has_several_forms(node):
    say(node, "broken")
    async with run_agent(node) as process:
        await ready(node, process)
        await ill(node, ONE)
        code, out, _ = await ask(node, "status", "-o", "name")
        assert (code, out.split()) == (1, [FOO, NPU])
        assert (await ask(node, "status", "-o", "name", NPU))[1].split() == [ONE, TWO]
        assert (await ask(node, "status", "-q"))[:2] == (1, "")
        _, out, _ = await ask(node, "status", "-o", "wide")
        assert "resources.d/" in out.split("ORIGIN")[1]
        _, out, _ = await ask(node, "status", "--utc")
        assert re.search(r"Unhealthy since \d\d:\d\d:\d\dZ \(", out)
        await end(process)
    code, out, err = await ask(node, "status", "-o", "json")
    assert (code, out) == (3, "")
    assert json.loads(err)["exit"] == 3


async def test_a_kubelet_that_is_down_is_one_problem(node):
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        await node.kubelet.stop()
        await node.until(lambda: "down" in process.log)
        code, said = await status(node)
        assert code == 1
        assert [one["subject"] for one in said["attention"]] == ["kubelet"]
        assert said["attention"][0]["next"] == ["journalctl -u kubelet -n 50"]
        assert said["kubelet"]["state"] == "down"
        async with asyncio.timeout(120):
            while {one["waiting_for"] for one in said["resources"]} != {"kubelet"}:  # one may just be trying again
                _, said = await status(node)
        await node.kubelet.start()
        await node.streaming(FOO, NPU)
        code, said = await status(node)
        assert (code, said["kubelet"]["state"], said["kubelet"]["restarts"]) == (0, "up", 1)
        await end(process)


async def test_drain_lasts_over_restarts_and_is_nobody_s_problem(node):
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        code, out, err = await ask(node, "drain", "02:00.0", "--reason", "RMA \x1b[31m2231", "--wait")
        assert (code, err) == (0, "")
        assert out.startswith(f"{NPU} {TWO} at {TWO}: drained (RMA \\x1b[31m2231); no new pod gets it until undrain")
        await ill(node, TWO)
        await node.until(lambda: f"{NPU} {TWO}: Healthy → Unhealthy: drained: RMA" in process.log)
        code, said = await status(node)
        assert (code, said["attention"]) == (0, [])
        code, out, _ = await ask(node, "status")
        assert f"drained: {TWO} (RMA \\x1b[31m2231)" in out
        process.child.kill()
        await process.child.wait()
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        await ill(node, TWO)
        code, said = await status(node)
        assert code == 0
        devices = {one["id"]: one for resource in said["resources"] for one in resource["devices"]}
        assert devices[TWO]["drained"]["reason"] == "RMA \\x1b[31m2231"
        assert devices[ONE]["drained"] is None
        code, out, _ = await ask(node, "undrain", TWO)
        assert (code, out) == (0, f"{NPU} {TWO} at {TWO}: not drained; Healthy\n")
        await ill(node)
        assert (await status(node))[1]["drained"] == []
        assert (await ask(node, "drain", "nothing"))[0] == 4
        assert (await ask(node, "undrain", "nothing"))[0] == 4
        await end(process)
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        await ill(node)
        await end(process)


async def test_a_resource_is_drained_with_all_that_comes_to_it(node):
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        assert (await ask(node, "drain", FOO))[0] == 0
        await node.allocatable(FOO, 0)
        assert node.kubelet.unhealthy(FOO) == {"foo0", "foo1"}
        code, _, err = await ask(node, "undrain", "/dev/foo0")
        assert code == 0
        assert f"still drained, because the whole resource is drained: device-agent undrain {FOO}" in err
        assert (await ask(node, "undrain", FOO))[0] == 0
        await node.allocatable(FOO, 2)
        await end(process)


async def test_what_a_pod_holds_it_keeps(node):
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        await hold(node, NPU, 2)
        code, out, _ = await ask(node, "drain", ONE, "-o", "json")
        assert code == 0
        (device,) = json.loads(out)["devices"]
        assert [one["pod"] for one in device["held_by"]] == ["pod"]
        assert device["may_be_held"]
        assert (await ask(node, "undrain", ONE))[0] == 0
        await end(process)


async def test_metrics_are_what_prometheus_reads(node, tmp_path):
    node.settings(f'[metrics]\nlisten = "unix:{node.top}/metrics"\nmax_devices = 1\n')
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        await hold(node, FOO, 1)
        say(node, "broken")
        await ill(node, ONE)
        await ask(node, "drain", TWO)
        node.plug("foo2")
        await node.until(lambda: node.kubelet.allocatable(FOO) == 3)
        code, out, err = await ask(node, "metrics")
        assert (code, err) == (0, "")
        series = read(out)
        assert get_value(series, "kubelet_up") == 1
        assert get_value(series, "resource_streams", resource=FOO) == 1
        assert get_value(series, "resource_devices_in_use", resource=FOO) == 1
        assert get_value(series, "allocations_total", resource=FOO, result="ok") == 1
        assert get_value(series, "registrations_total", resource=FOO, result="ok") == 1
        assert get_value(series, "health_transitions_total", resource=NPU, to="Unhealthy") == 2
        assert get_value(series, "device_check_failing", resource=NPU, device=ONE, check="state") == 1
        assert get_value(series, "devices_omitted", resource=NPU) == 1
        assert get_value(series, "lists_sent_total", resource=NPU) >= 2
        assert get_value(series, "list_size_bytes", resource=NPU) > 0
        assert get_value(series, "change_to_list_seconds_count") >= 1
        assert get_value(series, "rpc_duration_seconds_count", method="Allocate") == 1
        assert get_value(series, "host_devices", source="pci") == 2
        file = tmp_path / "device-agent.prom"
        assert (await ask(node, "metrics", "--textfile", str(file)))[0] == 0
        assert set(read(file.read_text())) == set(series)
        assert [one.name for one in tmp_path.iterdir()] == [file.name]
        assert file.stat().st_mode & 0o777 == 0o644
        code, _, err = await ask(node, "metrics", "--textfile", str(tmp_path / "none/x.prom"))
        assert (code, "No such file or directory" in err) == (1, True)
        reader, writer = await asyncio.open_unix_connection(f"{node.top}/metrics")
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        body = (await reader.read()).decode().partition("\r\n\r\n")[2]
        writer.close()
        assert set(read(body)) == set(series)
        await end(process)


async def test_explain_is_the_view_of_the_agent_if_there_is_one(node):
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        say(node, "broken")
        await ill(node, ONE)
        code, out, err = await ask(node, "explain", ONE)
        assert (code, err) == (0, "")
        assert out.startswith("data of the running agent, configuration ")
        check = next(line for line in out.splitlines() if line.startswith("  checks"))
        assert check.split()[:5] == ["checks", "state", "failing", "it", "is"]
        assert check.endswith(", latched")
        assert "recovers after repair, by device-agent clear" in out
        assert "history      1 to Unhealthy, 0 to Healthy" in out
        _, out, _ = await ask(node, "explain", ONE, "--history")
        assert "Healthy → Unhealthy: state: it is broken" in out
        _, out, _ = await ask(node, "explain", ONE, "-o", "json")
        said = json.loads(out)["agent"]
        assert [one["to"] for one in said["history"]] == ["Unhealthy"]
        assert said["checks"][0]["verdict"] == "failing"
        _, out, _ = await ask(node, "explain", NPU)
        assert "  state        streaming since" in out
        _, out, _ = await ask(node, "explain")
        assert "1 problem:" in out
        node.tree.at(f"/sys/bus/pci/devices/{TWO}").unlink()
        process.send(signal.SIGHUP)
        await ill(node, ONE, TWO)
        code, out, _ = await ask(node, "explain", TWO)
        assert code == 0
        assert "health       Unhealthy since" in out
        assert ": absent" in out
        await end(process)
    code, out, _ = await ask(node, "explain", ONE)
    assert code == 0
    assert out.startswith("read from this host: no agent is running")


async def test_an_agent_of_another_machine_is_not_believed(node, tmp_path):
    async with run_agent(node) as process:
        await ready(node, process)
        done = await asyncio.to_thread(device_agent, "explain", FOO, "--config", str(node.etc), "--root", str(tmp_path))
        assert done.stdout.startswith("read from this host: no agent of this host is running")
        await end(process)


async def test_what_is_taken_out_by_configuration_needs_nobody(node):
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        await hold(node, FOO, 1)
        node.serve(entry(BAR))
        assert (await ask(node, "reload"))[0] == 0
        code, said = await status(node)
        assert code == 0, said["attention"]
        states = {one["name"]: one["state"] for one in said["resources"]}
        assert states[FOO] == "retired"
        await end(process)


KEYS = {
    "": {
        "schema", "time", "node", "version", "up_seconds", "verdict", "attention", "config", "kubelet", "streaming",
        "drained", "resources", "changes", "revision",
    },
    "config": {"digest", "loaded", "files", "resources", "errors", "refused"},
    "kubelet": {"state", "since", "reason", "restarts"},
    "attention": {"subject", "what", "devices", "places", "since", "reason", "means", "held_by", "next"},
    "changes": {"time", "resource", "id", "from", "to", "reason"},
    "drained": {"resource", "place", "devices", "drained"},
    "resources": {
        "name", "state", "waiting_for", "reason", "since", "origin", "class", "healthy", "unhealthy", "in_use",
        "in_use_as_of", "expected", "drained", "streams", "not_listed", "devices",
    },
    "devices": {
        "resource", "id", "address", "place", "health", "reason", "since", "drained", "leaving", "numa", "shares",
        "told_kubelet", "held_by", "in_pod", "may_be_held", "checks",
    },
    "checks": {"check", "member", "verdict", "latched", "since", "reason", "evidence", "recovers"},
}  # fmt: skip


async def test_the_keys_of_the_status_are_there_for_good(node):
    """Of version 1 none of these may go; a new one is added here."""
    say(node, "broken")
    async with run_agent(node) as process:
        await ready(node, process)
        await ill(node, ONE)
        await ask(node, "drain", TWO)
        _, said = await status(node)
        assert said["schema"] == "device-agent/status/1"
        devices = [device for resource in said["resources"] for device in resource["devices"]]
        checks = [check for device in devices for check in device["checks"]]
        parts = {**said, "": said, "devices": devices, "checks": checks}
        for part, keys in KEYS.items():
            found = parts[part] if isinstance(parts[part], list) else [parts[part]]
            assert found
            assert all(set(one) == keys for one in found), part
        await end(process)


async def test_rescan_looks_now_and_says_what_changed(node):
    node.settings(look='settle = "5ms"\nevery = "1h"')
    node.serve(FOO, card('holds = { "./state" = "ready" }'))
    async with run_agent(node) as process:
        await ready(node, process)
        await node.streaming(FOO, NPU)
        say(node, "broken")
        code, out, _ = await ask(node, "rescan", "pci")
        assert code == 0
        change, last = out.splitlines()
        assert change.startswith(f"{NPU} {ONE}: Healthy → Unhealthy: state:")
        assert last.startswith("2 host devices read in ")
        assert last.endswith(": 1 changed")
        await ill(node, ONE)
        code, out, _ = await ask(node, "rescan", "-o", "json")
        said = json.loads(out)
        assert (code, said["changes"], said["host_devices"]) == (0, [], 4)
        code, out, err = await ask(node, "rescan", "usb")
        assert (code, out) == (4, "")
        assert "no entry has a source usb. The sources are node /dev/foo[0-9]*, pci" in err
        await end(process)


async def test_a_dry_run_takes_what_is_free(node):
    """As the agent knows it; what a pod holds can still be asked for by its id."""
    async with run_agent(node) as process:
        await ready(node, process)
        await node.allocatable(FOO, 2)
        given = await hold(node, FOO, 1)
        ((held, _),) = given.devices.values()
        held = held.removeprefix("/dev/")
        code, out, err = await ask(node, "allocate", FOO, "--dry-run")
        assert (code, err) == (0, "")
        assert "(1 of 1 free" in out
        assert {held, *({"foo0", "foo1"} & {*out.split()})} == {"foo0", "foo1"}
        code, _, err = await ask(node, "allocate", FOO, "--dry-run", "--count", "2")
        assert (code, "1 device is free, but 2 are requested" in err) == (1, True)
        code, out, _ = await ask(node, "allocate", FOO, "--dry-run", "--id", held)
        assert (code, held in out.splitlines()[0]) == (0, True)
        await end(process)
