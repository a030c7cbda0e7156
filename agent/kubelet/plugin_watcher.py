"""The service by which the kubelet's plugin watcher gets to know an endpoint."""

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
    """Served beside the plugin, on its own socket.

    verdict: what the kubelet said last: whether it registered us, and why not; None before it said anything.
    """

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self.verdict: tuple[bool, str] | None = None
        self._verdict_arrived = asyncio.Event()

    async def wait_for_verdict(self) -> tuple[bool, str]:
        """The newest verdict, as soon as there is one that was not returned yet. For one waiter."""
        await self._verdict_arrived.wait()
        self._verdict_arrived.clear()
        assert self.verdict is not None  # noqa: S101  set before the event
        return self.verdict

    async def get_info(self, message: InfoRequest) -> PluginInfo:
        """Who we are. The endpoint stays empty: a relative one would fail, and it is this socket."""
        del message
        return PluginInfo(type="DevicePlugin", name=self._resource, endpoint="", supported_versions=[VERSION])

    async def notify_registration_status(self, message: RegistrationStatus) -> RegistrationStatusResponse:
        """The kubelet's verdict; never an error, which would undo a registration from 1.36 on."""
        self.verdict = (message.plugin_registered, format_error_text(message.error))
        self._verdict_arrived.set()
        return RegistrationStatusResponse()
