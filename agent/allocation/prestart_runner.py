"""Prestart programs: an entry can require programs for each device before a container starts.

The programs of one device run one after another. Several devices run at the same time. All must end before the deadline
of the kubelet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent.core.entry.program import START_SECONDS
from agent.core.grants.grant import GrantRefusedError, RefusalCause, RereadDevice
from agent.core.grants.grant_words import GrantWords
from agent.core.grants.prestart import PrestartRun, build_environment, list_prestart_runs, make_failure_error
from agent.host.program import ProgramError, run

PARALLEL_DEVICES = 16  # devices whose programs run at the same time


async def run_before_start(
    resource: str, devices: Sequence[RereadDevice], *, requested_count: int, offered_count: int
) -> None:
    """Run all programs. A cancellation kills the running ones.

    Raises:
        GrantRefusedError: a program failed. In list order, the first failure.
    """
    jobs: list[tuple[RereadDevice, list[PrestartRun]]] = []
    for n, device in enumerate(devices):
        words = GrantWords(resource, device, n, {}, requested_count=requested_count, listed_count=offered_count)
        jobs.append((device, list(list_prestart_runs(resource, device, words))))
    semaphore = asyncio.Semaphore(PARALLEL_DEVICES)
    try:
        async with asyncio.timeout(START_SECONDS), asyncio.TaskGroup() as tasks:
            results = [
                tasks.create_task(_run_programs(resource, device, programs, semaphore)) for device, programs in jobs
            ]
    except TimeoutError:
        message = f"{resource}: the prestart programs did not end within {START_SECONDS:g} s"
        raise GrantRefusedError(RefusalCause.DEADLINE, message) from None
    if refusal := next((result.result() for result in results if result.result() is not None), None):
        raise refusal


async def _run_programs(
    resource: str, device: RereadDevice, programs: Sequence[PrestartRun], semaphore: asyncio.Semaphore
) -> GrantRefusedError | None:
    """Run the programs of one device up to the first failure. Return the failure, or None."""
    environment_variables = build_environment(resource, device)
    async with semaphore:
        for program in programs:
            try:
                await run(program.command, environment_variables)
            except ProgramError as error:
                return make_failure_error(resource, device, program.name, str(error))
    return None
