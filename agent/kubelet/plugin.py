"""The services of one resource on its socket: the device plugin, and its registration by the plugin watcher."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Protocol

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from agent.core.grants.grant import Grant, GrantRefusedError
from agent.core.message_id import MessageId, build_log_extra
from agent.core.rate_limit import RateLimit
from agent.kubelet.allocate_response import encode_allocate_response
from agent.kubelet.grpc_server_call import DefectHandler
from agent.kubelet.messages.pluginregistration import (
    InfoRequest,
    PluginInfo,
    RegistrationBase,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from agent.kubelet.messages.v1beta1 import (
    AllocateRequest,
    ContainerPreferredAllocationRequest,
    ContainerPreferredAllocationResponse,
    DevicePluginBase,
    DevicePluginOptions,
    Empty,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from agent.kubelet.wire import VERSION, ListEncoder, PluginOptions, format_error_text, make_refusal
from agent.registry import Registry

log = logging.getLogger(__name__)


class GrantProvider(Protocol):
    """Decides grants. Each method returns or fails within milliseconds, because the kubelet has no timeout (fact 7)."""

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """Return the grant for one container.

        Raises:
            GrantRefusedError: with the reason for the status of the pod.
        """

    async def start(self, resource: str, ids: Sequence[str]) -> None:
        """Prepare the start of a container with these IDs. Called before each start.

        Raises:
            GrantRefusedError: the container must not start, with the reason.
        """

    def prefer(self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """Return the preferred IDs for a container, or nothing if there is no preference."""


class Plugin(DevicePluginBase):
    """The service of one resource. Its only state is its open streams."""

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
        """Create it. `clock` and `pause` are only for the rate limit of lists."""
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
        """Return the options. This call never fails, because the kubelet calls it only once."""
        del message
        return self._options.build_message()

    async def list_and_watch(self, message: Empty) -> AsyncIterator[bytes]:  # type: ignore[override]  # see _Codec
        """Yield the list at once, even an empty one. Then yield the current list at each change that the kubelet can
        see.
        """
        del message
        rate_limit = RateLimit()
        sent: bytes | None = None
        with self._registry.follow(self._resource) as follower:
            while True:
                device_list = await follower.wait_for_list()
                message_bytes = self._encoder.encode(device_list)
                size = None
                if message_bytes != sent:
                    seconds = rate_limit.get_delay(self._clock())
                    if seconds:
                        await self._pause(seconds)
                        continue  # with the current list, which may equal the sent one
                    rate_limit = rate_limit.add_message(self._clock())
                    yield message_bytes
                    sent = message_bytes
                    size = len(message_bytes)
                follower.mark_sent(device_list, size)

    async def get_preferred_allocation(self, message: PreferredAllocationRequest) -> PreferredAllocationResponse:
        """Return the preferred IDs. This call never fails: an error would fail the pod. With an empty answer the
        kubelet chooses.
        """
        return PreferredAllocationResponse(
            container_responses=[self._prefer(request) for request in message.container_requests]
        )

    async def allocate(self, message: AllocateRequest) -> bytes:  # type: ignore[override]  # see _Codec
        """Return one response for each requested container, in order, or one error for all."""
        # After an empty response the kubelet would keep the devices booked until a pod ends.
        if not message.container_requests or not all(request.devices_ids for request in message.container_requests):
            raise GRPCError(
                Status.INVALID_ARGUMENT, format_error_text(f"{self._resource}: the request names no device")
            )
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
        """Prepare the start of a container. An error prevents the start. The kubelet then retries, with pauses."""
        try:
            await self._grants.start(self._resource, message.devices_ids)
        except GrantRefusedError as refusal:
            error = make_refusal(refusal)
            log.warning("not started: %s", error.message, extra=self._build_log_fields(error, refusal))
            raise error from None
        return PreStartContainerResponse()

    def _build_log_fields(self, error: GRPCError, refusal: GrantRefusedError) -> dict[str, dict[str, str]]:
        """Return the log fields of a refusal."""
        return build_log_extra(
            MessageId.GRANT_REFUSED, resource=self._resource, reason=error.message, cause=refusal.cause.value
        )

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
        """Send the messages of a stream. Unlike the inherited method, close the generator when the peer is gone."""
        with self.streams.track_stream():
            if self.streams.is_ending:
                return
            async with aclosing(handler(request)) as messages:
                async for message in messages:
                    await stream.send_message(message)


class Streams:
    """Counts and ends the streams, and waits for them."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[object]] = set()
        self._stream_open = asyncio.Event()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._stream_seen = asyncio.Event()
        self.is_ending = False

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def track_stream(self) -> Iterator[None]:
        """Count the present task as a stream for the duration of the context.

        If `end` cancelled the task, the cancellation stops here. The caller returns, so the kubelet sees END_STREAM. If
        the peer cancelled the task or is gone, the cancellation continues, as grpclib expects.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a coroutine runs in a task
        self._calls.add(task)
        self._stream_seen.set()
        self._stream_open.set()
        self._all_closed.clear()
        try:
            yield
        except asyncio.CancelledError:
            if not self.is_ending:
                raise
            task.uncancel()
        finally:
            self._calls.discard(task)
            if not self._calls:
                self._stream_open.clear()
                self._all_closed.set()

    async def wait_for_stream(self) -> None:
        """Return when a stream is open."""
        await self._stream_open.wait()

    async def wait_for_end(self, grace: float) -> None:
        """Return after a stream was open, and no stream has been open for `grace` seconds.

        A second stream can stay open or follow at once. Then the end is not reached.
        """
        await self._stream_seen.wait()
        while True:
            await self._all_closed.wait()
            try:
                async with asyncio.timeout(grace):
                    await self._stream_open.wait()
            except TimeoutError:
                return

    def end(self) -> None:
        """End the handlers of all streams. Streams that open later end at once."""
        self.is_ending = True
        for task in self._calls:
            task.cancel()


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
