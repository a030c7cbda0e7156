"""The control daemon of NVIDIA's Multi-Process Service is asked whether it is there, as its own program asks it."""

from tests.agent.test_drop_in import nvidia

SHARED = "nvidia.com/gpu.shared"
GPUS = {f"GPU-8f6b1c9e-0000-4000-8000-00000000000{number}" for number in (1, 2)}
# It says what it was asked, and where; whether somebody answers is whether there is a daemon.
CONTROL = """#!/bin/sh
read what; echo "$what $CUDA_MPS_PIPE_DIRECTORY" >> {top}/asked
[ -e {top}/daemon ] && echo 100.0
"""


def make_entry(rig, program):
    options = f'options = {{ mps_control = "{program}", mps_pipe = "/run/mps" }}\nhealth.mps.every = "100ms"'
    text = f'name = "{SHARED}"\nclass = "nvidia-gpu"\nuses = ["nvidia-mps"]\n{options}'
    rig.serve(nvidia(rig, text))
    rig.tree.file("/run/mps/control", "")
    rig.tree.file("/run/nvidia/mps/shm/x", "")


def read_queries(rig):
    path = rig.top / "asked"
    return set(path.read_text().splitlines()) if path.exists() else set()


async def test_a_daemon_that_does_not_answer_makes_its_gpus_ill(rig):
    program = rig.top / "mps-control"
    program.write_text(CONTROL.format(top=rig.top))
    program.chmod(0o755)
    (rig.top / "daemon").touch()
    make_entry(rig, program)
    await rig.kubelet.start()
    async with rig.agent() as agent:
        await rig.until(lambda: read_queries(rig) == {"get_default_active_thread_percentage /run/mps"})
        await rig.allocatable(SHARED, 2)
        (rig.top / "daemon").unlink()  # its directory is there still
        await rig.until(lambda: rig.kubelet.unhealthy(SHARED) == GPUS)
        said = {str(device.reason) for device in agent.tracker.device_lists.lists[SHARED].devices}
        assert said == {"mps: the MPS control daemon does not answer (sh: exit code 1)"}
        (rig.top / "daemon").touch()
        await rig.until(lambda: rig.kubelet.unhealthy(SHARED) == set())


async def test_nobody_asks_where_its_program_is_not(rig):
    make_entry(rig, rig.top / "none")
    await rig.kubelet.start()
    async with rig.agent():
        await rig.allocatable(SHARED, 2)
