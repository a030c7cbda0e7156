"""The device plugin of one resource, as the kubelet calls it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from agent.core.grants.grant import Grant, GrantRefusedError
from agent.core.message_id import MessageId, fields
from agent.core.rate_limit import RateLimit
from agent.kubelet.allocate_response import encode_allocate_response
from agent.kubelet.grpc_server_call import DefectHandler
from agent.kubelet.messages.v1beta1 import (
    AllocateRequest,
    AllocateResponse,
    ContainerPreferredAllocationRequest,
    ContainerPreferredAllocationResponse,
    DevicePluginBase,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from agent.kubelet.streams import Streams
from agent.kubelet.wire import EncodedList, ListEncoder, PluginOptions, format_error_text, make_refusal
from agent.registry import Registry

log = logging.getLogger(__name__)


class GrantProvider(Protocol):
    """Who decides what containers get. Both answer in milliseconds or fail: the kubelet waits for ever (fact 7)."""

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """The grant for one container.

        Raises:
            Refused: with the reason, for the status of the pod.
        """

    async def start(self, resource: str, ids: Sequence[str]) -> None:
        """Do what is to be done before a container with these ids starts, each time it does.

        Raises:
            Refused: it is not to start, with the reason.
        """

    def prefer(self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """The ids that a container had better get; none where nothing can be preferred."""


class Plugin(DevicePluginBase):
    """Serves one resource. Keeps nothing but its open streams."""

    def __init__(
        self,
        resource: str,
        registry: Registry,
        grants: GrantProvider,
        on_defect: DefectHandler,
        *,
        options: PluginOptions,
        encoder: ListEncoder,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`clock` and `pause` are for the pacing of lists alone."""
        self._resource = resource
        self._registry = registry
        self._grants = grants
        self._on_defect = on_defect
        self._options = options
        self._encoder = encoder
        self._clock = clock
        self._pause = pause
        self.streams = Streams()

    async def get_device_plugin_options(self, message: Empty) -> DevicePluginOptions:
        """Never fails: the kubelet asks once."""
        del message
        return self._options.build_message()

    async def list_and_watch(self, message: Empty) -> AsyncIterator[ListAndWatchResponse]:
        """The list at once, even an empty one, then the newest whenever the kubelet would see a difference."""
        del message
        rate_limit = RateLimit()
        sent: EncodedList | None = None
        with self._registry.follow(self._resource) as follower:
            while True:
                device_list = await follower.wait_for_list()
                message_bytes = self._encoder.encode(device_list)
                size = None
                if sent is None or message_bytes.wire != sent.wire:
                    seconds = rate_limit.wait(self._clock())
                    if seconds:
                        await self._pause(seconds)
                        continue  # with what is newest then, which may be what was sent
                    rate_limit = rate_limit.sent(self._clock())
                    yield message_bytes
                    sent = message_bytes
                    size = len(message_bytes.wire)
                follower.mark_sent(device_list, size)

    async def get_preferred_allocation(self, message: PreferredAllocationRequest) -> PreferredAllocationResponse:
        """Never fails: an error would fail the pod, an empty answer leaves the choice to the kubelet."""
        return PreferredAllocationResponse(
            container_responses=[self._prefer(request) for request in message.container_requests]
        )

    async def allocate(self, message: AllocateRequest) -> AllocateResponse:
        """One answer for each container asked for, in that order, or an error for all."""
        # An empty answer would cost the kubelet the devices until some pod goes.
        if not message.container_requests or not all(request.devices_ids for request in message.container_requests):
            raise GRPCError(Status.INVALID_ARGUMENT, format_error_text(f"{self._resource}: no device is asked for"))
        try:
            return encode_allocate_response(
                [
                    await self._grants.allocate(self._resource, request.devices_ids)
                    for request in message.container_requests
                ]
            )
        except GrantRefusedError as refusal:
            error = make_refusal(refusal)
            log.warning("refused: %s", error.message, extra=self._build_log_fields(error, refusal))
            raise error from None

    async def pre_start_container(self, message: PreStartContainerRequest) -> PreStartContainerResponse:
        """An error keeps the container from starting; the kubelet tries again, ever more rarely."""
        try:
            await self._grants.start(self._resource, message.devices_ids)
        except GrantRefusedError as refusal:
            error = make_refusal(refusal)
            log.warning("not started: %s", error.message, extra=self._build_log_fields(error, refusal))
            raise error from None
        return PreStartContainerResponse()

    def _build_log_fields(self, error: GRPCError, refusal: GrantRefusedError) -> dict[str, dict[str, str]]:
        """The fields of a log line that says why a container does not get its devices."""
        return fields(MessageId.GRANT_REFUSED, resource=self._resource, reason=error.message, cause=refusal.cause.value)

    def _prefer(self, request: ContainerPreferredAllocationRequest) -> ContainerPreferredAllocationResponse:
        try:
            ids = self._grants.prefer(
                self._resource,
                request.available_deviceIDs,
                request.must_include_deviceIDs,
                request.allocation_size,
            )
        except Exception as error:  # noqa: BLE001  a defect must not fail the pod as well
            self._on_defect(error)
            ids = ()
        return ContainerPreferredAllocationResponse(device_i_ds=list(ids))

    async def _call_rpc_handler_server_stream(
        self,
        handler: Callable[..., Any],
        stream: Any,  # noqa: ANN401  as generated code has it
        request: Any,  # noqa: ANN401  as generated code has it
    ) -> None:
        """Send a stream's messages. Unlike the inherited one, leaves no generator when the peer is gone."""
        with self.streams.track_stream():
            if self.streams.is_ending:
                return
            async with aclosing(handler(request)) as messages:
                async for message in messages:
                    await stream.send_message(message)
