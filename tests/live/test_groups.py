"""Devices that are several host devices, on a tree on disk: put together, taken apart, given, and remembered."""

import itertools

import pytest

from agent.core.grants import held_ids
from device_agent_lab.simulated.errors import PodRefused
from tests.live.received_lists import HEALTHY, UNHEALTHY, kernel_event, last, story

KIT, VFIO, SOUND = "example.com/kit", "example.com/vfio", "example.com/sound"
HUB = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1"

USB_KIT = f"""\
[[resource]]
name = "{KIT}"
class = "usb-kit"
"""
CLASS = """
about  = "a dongle and a programmer behind one hub, both, as one device"
source = "usb"
id     = "kit-{hub}"

[group]
by = "hub"
[group.parts]
dongle     = { vendor = "0403", product = "6001" }
programmer = { vendor = "1a86", product = "7523" }

[give.nodes]
dongle     = { path = "{dongle.tty.node}", to = "/dev/kit/" }
programmer = "{programmer.node}"
[give.env]
KIT = { value = "{dongle.serial}+{programmer.port}", join = "," }
"""
VFIO_ENTRY = f"""\
[[resource]]
name   = "{VFIO}"
source = "pci"
match  = {{ driver = "vfio-pci" }}
group  = {{ by = "iommu.group", claims = "all" }}
[resource.give.env]
ASKED = {{ value = "{{matched.address}}", join = "," }}
ALL   = {{ value = "{{members.address}}", join = "," }}
GROUP = {{ value = "{{iommu.group}}", join = "," }}
"""
SOUND_ENTRY = f"""\
[[resource]]
name   = "{SOUND}"
source = "pci"
match  = {{ class = "0403" }}
[resource.give.env]
CARD = {{ value = "{{address}}", join = "," }}
"""
_GONE = itertools.count()


@pytest.fixture
def soon(monkeypatch, at_once):
    """What pods no longer hold is known to be free as soon as PodResources has said so twice."""
    monkeypatch.setattr(held_ids, "SURE_SECONDS", 0.0)


class Bench:
    """A hub of a machine, into whose ports things are plugged, part by part."""

    def __init__(self, rig):
        self.rig = rig
        (rig.etc / "classes").mkdir(exist_ok=True)
        (rig.etc / "classes" / "usb-kit.toml").write_text(CLASS)
        rig.serve(USB_KIT)
        rig.tree.pci("0000:00:14.0")
        rig.tree.usb(HUB, "05e3", "0610", devnum=2)

    def dongle(self, port=1, serial="D1", hub=HUB):
        base = self._usb(hub, port, "0403", "6001", serial)
        name = f"ttyUSB{port}"
        self.rig.tree.device(f"{base}/{base.rpartition('/')[2]}:1.0", "usb", bus=True)
        self.rig.tree.class_device(f"{base}/{base.rpartition('/')[2]}:1.0/{name}/tty/{name}", "tty", name, 188, port)
        return base

    def programmer(self, port=2, hub=HUB):
        return self._usb(hub, port, "1a86", "7523", "")

    def _usb(self, hub, port, vendor, product, serial):
        base = f"{hub}/{hub.rpartition('/')[2]}.{port}"
        self.rig.tree.usb(base, vendor, product, serial=serial, devnum=int(hub[-1]) * 10 + port)
        return base

    def unplug(self, base):
        """Nothing is deleted, for a disk may deal the number of an inode again."""
        tree = self.rig.tree
        for path in (base, f"/sys/bus/usb/devices/{base.rpartition('/')[2]}"):
            tree.at(path).rename(tree.top / f"gone{next(_GONE)}")


def send_events(agent, *bases):
    """Send kernel events for these devices."""
    for base in bases:
        agent.tracker.request_look(kernel_event(base, "usb"))


def reason(agent, resource, number=0):
    return str(agent.registry.get_list(resource).devices[number].reason)


async def test_a_kit_is_plugged_part_by_part(rig):
    bench = Bench(rig)
    async with rig.kubelet, rig.agent() as agent:
        await rig.streaming(KIT)
        send_events(agent, bench.dongle())
        await agent.tracker.wait_for_look()
        assert last(rig.kubelet, KIT) == {}
        assert [one.reason for one in agent.tracker.device_lists.unlisted] == ["there is no programmer"]
        programmer = bench.programmer()
        send_events(agent, programmer)
        await rig.until(lambda: last(rig.kubelet, KIT) == {"kit-1-1": HEALTHY})
        given = await rig.kubelet.allocate("p", "c", {KIT: 1})
        assert given.devices == {
            "/dev/kit/ttyUSB1": ("/dev/ttyUSB1", "rw"),
            "/dev/bus/usb/001/012": ("/dev/bus/usb/001/012", "rw"),
        }
        assert given.envs == {"KIT": "D1+1-1.2"}
        bench.unplug(programmer)
        send_events(agent, programmer)
        await rig.until(lambda: last(rig.kubelet, KIT) == {"kit-1-1": UNHEALTHY})
        assert reason(agent, KIT) == "lost programmer (1-1.2)"
        bench.programmer()
        send_events(agent, programmer)
        await rig.until(lambda: last(rig.kubelet, KIT) == {"kit-1-1": HEALTHY})
    assert story(rig.kubelet, KIT) == [
        {}, {"kit-1-1": HEALTHY}, {"kit-1-1": UNHEALTHY}, {"kit-1-1": HEALTHY}
    ]  # fmt: skip


async def test_two_kits_behind_two_hubs_and_a_third_dongle(rig):
    bench = Bench(rig)
    second = HUB[:-1] + "2"
    rig.tree.usb(second, "05e3", "0610", devnum=3)
    for hub in (HUB, second):
        bench.dongle(hub=hub)
        bench.programmer(hub=hub)
    async with rig.kubelet, rig.agent() as agent:
        await rig.until(lambda: last(rig.kubelet, KIT) == {"kit-1-1": HEALTHY, "kit-1-2": HEALTHY})
        more = bench.dongle(port=3, hub=second)
        send_events(agent, more)
        await rig.until(lambda: last(rig.kubelet, KIT) == {"kit-1-1": HEALTHY, "kit-1-2": UNHEALTHY})
        assert reason(agent, KIT, 1) == "1-2.1 and 1-2.3 are both dongle"
        bench.unplug(more)
        send_events(agent, more)
        await rig.until(lambda: last(rig.kubelet, KIT) == {"kit-1-1": HEALTHY, "kit-1-2": HEALTHY})


async def test_what_a_kit_has_lost_is_known_after_a_restart_of_the_agent(rig):
    bench = Bench(rig)
    dongle, _ = bench.dongle(), bench.programmer()
    async with rig.kubelet:
        async with rig.agent():
            await rig.until(lambda: last(rig.kubelet, KIT) == {"kit-1-1": HEALTHY})
        bench.unplug(dongle)
        async with rig.agent() as agent:
            await rig.until(lambda: last(rig.kubelet, KIT) == {"kit-1-1": UNHEALTHY})
            await rig.until(lambda: reason(agent, KIT) == "lost dongle (1-1.1)")
            bench.dongle()
            send_events(agent, dongle)
            await rig.until(lambda: last(rig.kubelet, KIT) == {"kit-1-1": HEALTHY})


# ---------------------------------------------------------------- IOMMU groups


def card(rig, slot, *drivers, group):
    """A card of some functions in one IOMMU group, the second of which is its sound."""
    functions = [
        rig.tree.pci(f"0000:{slot}:00.{number}", driver=driver, **{"class": "0x040300\n" if number else "0x030000\n"})
        for number, driver in enumerate(drivers)
    ]
    rig.tree.iommu_group(group, *functions)
    return functions


def bind(rig, function, driver):
    rig.tree.at(f"/sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
    rig.tree.link(f"{function}/driver", f"/sys/bus/pci/drivers/{driver}")


async def test_a_group_comes_along_whole_and_is_nobody_elses(rig):
    rig.serve(VFIO_ENTRY, SOUND_ENTRY)
    card(rig, "3b", "vfio-pci", "snd_hda_intel", group=7)
    card(rig, "5e", "amdgpu", "snd_hda_intel", group=8)
    async with rig.kubelet, rig.agent():
        await rig.until(lambda: last(rig.kubelet, VFIO) == {"0000:3b:00.0": HEALTHY})
        await rig.until(lambda: last(rig.kubelet, SOUND) == {"0000:5e:00.1": HEALTHY})
        given = await rig.kubelet.allocate("p", "c", {VFIO: 1})
        assert given.envs == {"ASKED": "0000:3b:00.0", "ALL": "0000:3b:00.0,0000:3b:00.1", "GROUP": "7"}


async def test_what_an_earlier_entry_has_keeps_a_group_from_everybody(rig):
    rig.serve(SOUND_ENTRY, VFIO_ENTRY)
    card(rig, "3b", "vfio-pci", "snd_hda_intel", group=7)
    async with rig.kubelet, rig.agent() as agent:
        await rig.until(lambda: last(rig.kubelet, VFIO) == {"0000:3b:00.0": UNHEALTHY})
        await rig.until(lambda: last(rig.kubelet, SOUND) == {"0000:3b:00.1": HEALTHY})
        assert reason(agent, VFIO) == f"0000:3b:00.1 is in {SOUND}"


async def test_a_function_that_is_bound_elsewhere_is_still_of_its_group_until_none_is_bound(rig):
    rig.serve(VFIO_ENTRY, SOUND_ENTRY)
    gpu, sound = card(rig, "3b", "vfio-pci", "snd_hda_intel", group=7)
    async with rig.kubelet, rig.agent() as agent:
        await rig.until(lambda: last(rig.kubelet, VFIO) == {"0000:3b:00.0": HEALTHY})
        bind(rig, sound, "vfio-pci")
        agent.tracker.request_look(kernel_event(sound, "pci"))
        bind(rig, gpu, "amdgpu")
        agent.tracker.request_look(kernel_event(gpu, "pci"))
        await agent.tracker.wait_for_look()
        assert [device.id for device in agent.registry.get_list(VFIO).devices] == ["0000:3b:00.0"]
        assert reason(agent, VFIO) == ""
        bind(rig, sound, "snd_hda_intel")
        agent.tracker.request_look(kernel_event(sound, "pci"))
        await rig.until(lambda: last(rig.kubelet, SOUND) == {"0000:3b:00.1": HEALTHY})
        await rig.until(lambda: last(rig.kubelet, VFIO) == {})


async def test_a_function_that_goes_is_lost_and_known_by_its_group_when_it_returns(rig):
    rig.serve(VFIO_ENTRY)
    gpu, sound = card(rig, "3b", "vfio-pci", "snd_hda_intel", group=7)
    listed = "/sys/bus/pci/devices/0000:3b:00.1"
    async with rig.kubelet, rig.agent() as agent:
        await rig.until(lambda: last(rig.kubelet, VFIO) == {"0000:3b:00.0": HEALTHY})
        for path in (listed, sound):
            rig.tree.at(path).rename(rig.tree.top / f"away{path.rpartition('/')[2]}{len(path)}")
        agent.tracker.request_look(kernel_event(sound, "pci"))
        await rig.until(lambda: last(rig.kubelet, VFIO) == {"0000:3b:00.0": UNHEALTHY})
        assert reason(agent, VFIO) == "lost 0000:3b:00.1"
        with pytest.raises(PodRefused):
            await rig.kubelet.allocate("p", "c", {VFIO: 1})
        rig.tree.iommu_group(7, rig.tree.pci("0000:3b:00.1", driver="snd_hda_intel"))
        agent.tracker.request_look(kernel_event(sound, "pci"))
        await rig.until(lambda: last(rig.kubelet, VFIO) == {"0000:3b:00.0": HEALTHY})
        del gpu


async def test_a_replug_that_no_look_saw_is_refused_for_any_member(rig):
    rig.serve(VFIO_ENTRY)
    _, sound = card(rig, "3b", "vfio-pci", "snd_hda_intel", group=7)
    async with rig.kubelet, rig.agent():
        await rig.until(lambda: last(rig.kubelet, VFIO) == {"0000:3b:00.0": HEALTHY})
        rig.tree.at(sound).rename(rig.tree.top / "away")
        rig.tree.iommu_group(7, rig.tree.pci("0000:3b:00.1", driver="snd_hda_intel"))
        with pytest.raises(PodRefused, match="other hardware is in its place now"):
            await rig.kubelet.allocate("p", "c", {VFIO: 1})
        assert (await rig.kubelet.allocate("q", "c", {VFIO: 1})).envs["ASKED"] == "0000:3b:00.0"


async def test_a_reload_puts_together_what_pods_held_apart_when_they_are_gone(rig, soon):
    apart = VFIO_ENTRY.replace('group  = { by = "iommu.group", claims = "all" }\n', "")
    rig.serve(apart)
    card(rig, "3b", "vfio-pci", "vfio-pci", group=7)
    first, second = "0000:3b:00.0", "0000:3b:00.1"
    async with rig.kubelet, rig.agent() as agent:
        await rig.until(lambda: last(rig.kubelet, VFIO) == {first: HEALTHY, second: HEALTHY})
        await rig.kubelet.allocate("p", "c", {VFIO: 2})
        rig.serve(VFIO_ENTRY)
        await rig.reload(agent)
        await rig.until(lambda: last(rig.kubelet, VFIO) == {first: UNHEALTHY, second: UNHEALTHY})
        assert reason(agent, VFIO) == f"a pod holds {second} as {VFIO} {second}"
        rig.kubelet.remove_pod("p")
        await rig.until(lambda: last(rig.kubelet, VFIO) == {first: HEALTHY})
