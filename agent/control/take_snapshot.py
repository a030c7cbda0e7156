"""Snapshots of an agent: all state at one time, as frozen values."""

from __future__ import annotations

import asyncio
import os
import platform
import time

from agent import __version__
from agent.app import Agent
from agent.config.toml.finding import Severity
from agent.core.report.agent_snapshot import ActiveConfigState, AgentSnapshot, Stream
from agent.core.report.metrics import SeriesOptions, format_metrics

HOLDERS_SECONDS = 2.0  # highest age of a PodResources answer; all clients of that socket share one rate limit
ANSWER_SECONDS = 1.0  # for a new answer; after that the last answer is used, with its time


async def collect_metrics(agent: Agent) -> str:
    """Return the present metrics of the agent as text."""
    snapshot = await take_snapshot(agent)
    shown = SeriesOptions(agent.settings.metrics.max_devices, agent.settings.metrics.pods)
    return await asyncio.to_thread(
        format_metrics, snapshot, agent.tracker.counter_values, platform.python_version(), shown
    )


async def take_snapshot(agent: Agent) -> AgentSnapshot:
    """Return the present state of the agent. Ask PodResources first if its last answer is old."""
    await agent.devices_in_use.refresh(HOLDERS_SECONDS, ANSWER_SECONDS)
    status, tracker, configuration = agent.status, agent.tracker, agent.configuration
    errors = sum(finding.severity is Severity.ERROR for finding in configuration.findings)
    return AgentSnapshot(
        node=os.uname().nodename,
        version=__version__,
        wall_time=time.time(),
        current_time=time.monotonic(),
        start_time=agent.started,
        configuration=ActiveConfigState(
            configuration.digest, agent.configured_at, len(configuration.files), errors, status.notice
        ),
        specs=tracker.specs,
        inventory=tracker.inventory,
        candidates=tracker.candidates,
        check_states=tracker.check_states,
        lists=tracker.device_lists,
        states=dict(status.resources),
        streams={
            name: Stream(agent.registry.count_streams(name), agent.registry.is_delivered(name))
            for name in tracker.device_lists.lists
        },
        kubelet=status.kubelet,
        drains=tracker.drains,
        held_ids=agent.devices_in_use.ids,
        holders=agent.devices_in_use.holders,
        holders_time=agent.devices_in_use.answered_at,
        pod_resources_up=agent.devices_in_use.is_answering,
        changes=status.history.changes,
        missing_devices=status.missing,
        state_file_fault=agent.unsaved_reason,
        kernel_log_fault=tracker.kernel_log_error,
        open_files_fault=agent.open_files.check(),
    )
