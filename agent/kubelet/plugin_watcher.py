"""The service by which the kubelet's plugin watcher identifies an endpoint."""

from __future__ import annotations

import asyncio

from agent.kubelet.messages.pluginregistration import (
    InfoRequest,
    PluginInfo,
    RegistrationBase,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from agent.kubelet.wire import VERSION, format_error_text


class PluginInfoService(RegistrationBase):
    """The registration service on the socket of the plugin.

    verdict: the last answer of the kubelet: registered or not, and the reason. None before the first answer.
    """

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self.verdict: tuple[bool, str] | None = None
        self._verdict_arrived = asyncio.Event()

    async def wait_for_verdict(self) -> tuple[bool, str]:
        """Return the newest verdict after its arrival. Only one caller can wait."""
        await self._verdict_arrived.wait()
        self._verdict_arrived.clear()
        assert self.verdict is not None  # noqa: S101  set before the event
        return self.verdict

    async def get_info(self, message: InfoRequest) -> PluginInfo:
        """Return the name of the resource. `endpoint` stays empty, so the kubelet uses this socket. A relative path
        would fail.
        """
        del message
        return PluginInfo(type="DevicePlugin", name=self._resource, endpoint="", supported_versions=[VERSION])

    async def notify_registration_status(self, message: RegistrationStatus) -> RegistrationStatusResponse:
        """Record the verdict of the kubelet. Never fail: from 1.36 on, an error would undo a registration."""
        self.verdict = (message.plugin_registered, format_error_text(message.error))
        self._verdict_arrived.set()
        return RegistrationStatusResponse()
