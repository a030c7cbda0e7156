"""The Registration service on kubelet.sock."""

import asyncio
import os
import re
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError
from grpclib.const import Cardinality, Handler, Status

from agent.kubelet.messages import v1beta1
from device_agent_lab.simulated.clients import Clients, RegistrationError, start_task
from device_agent_lab.simulated.fault_injection import Fault
from device_agent_lab.simulated.simulated_node import SimulatedNode

if TYPE_CHECKING:
    from grpclib.server import Stream

VERSION = "v1beta1"

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def is_accepted(resource: str) -> bool:
    """Return whether v1helper.IsExtendedResourceName accepts the name: `requests.` + name is a qualified name."""
    if "/" not in resource or "kubernetes.io/" in resource or resource.startswith("requests."):
        return False
    prefix, _, name = f"requests.{resource}".partition("/")
    return (
        len(prefix) <= 253
        and _PREFIX.fullmatch(prefix) is not None
        and 1 <= len(name) <= 63
        and _NAME.fullmatch(name) is not None
    )


def find_refusal(request: v1beta1.RegisterRequest) -> str | None:
    """Check the request (steps 2 and 3). Return the refusal with the text of dp/server.go, or None."""
    if request.version != VERSION:
        return (
            f'requested API version "{request.version}" is not supported by kubelet. Supported version is ["{VERSION}"]'
        )
    if not is_accepted(request.resource_name):
        return f'the ResourceName "{request.resource_name}" is invalid'
    return None


def join_path(directory: str, endpoint: str) -> str:
    """Join paths as filepath.Join does: `..` leads out, an absolute path leads below."""
    return os.path.normpath(directory + "/" + endpoint)


class Registration:
    """The service. It dials the plugin and reads its options, then answers. Every failure is UNKNOWN with a text."""

    def __init__(self, node: SimulatedNode, clients: Clients, tasks: asyncio.TaskGroup) -> None:
        self._node = node
        self._clients = clients
        self._tasks = tasks

    def __mapping__(self) -> dict[str, Handler]:
        return {
            "/v1beta1.Registration/Register": Handler(
                self._register, Cardinality.UNARY_UNARY, v1beta1.RegisterRequest, v1beta1.Empty
            )
        }

    async def _register(self, stream: "Stream[v1beta1.RegisterRequest, v1beta1.Empty]") -> None:
        request = await stream.recv_message()
        if request is None:
            return
        resource, fault = request.resource_name, self._node.faults.take_fault(request.resource_name)
        self._node.events.add(
            "register",
            resource,
            endpoint=request.endpoint,
            version=request.version,
            pre_start=bool(request.options and request.options.pre_start_required),
            preferred=bool(request.options and request.options.get_preferred_allocation_available),
            timeout=None if stream.deadline is None else stream.deadline.time_remaining(),
            fault=None if fault is None else fault.kind,
        )
        try:
            await self._raise_fault(fault, stream)
            if (text := find_refusal(request)) is not None:
                raise RegistrationError(text)
            await self._pause(fault, "dial_late")
            await self._connect(resource, join_path(self._node.directory, request.endpoint), stream)
        except RegistrationError as error:
            self._node.events.add("register_refused", resource, text=str(error))
            raise GRPCError(Status.UNKNOWN, str(error)) from None
        await self._pause(fault, "answer_late")
        if fault is not None and fault.kind == "lose_answer":
            drop_connection(stream)
            return
        await stream.send_message(v1beta1.Empty())
        self._node.events.add("register_answered", resource)

    async def _raise_fault(self, fault: Fault | None, stream: Any) -> None:  # noqa: ANN401
        await self._pause(fault, "hang")
        if fault is not None and fault.kind == "close":
            drop_connection(stream)
            raise RegistrationError("connection closed")
        if fault is not None and fault.kind == "refuse":
            raise RegistrationError(fault.text)

    @staticmethod
    async def _pause(fault: Fault | None, kind: str) -> None:
        if fault is not None and fault.kind == kind:
            await asyncio.sleep(fault.seconds)

    async def _connect(self, resource: str, socket: str, stream: Any) -> None:  # noqa: ANN401
        if self._node.release.dials_under_register:
            remaining = None if stream.deadline is None else stream.deadline.time_remaining()
            deadline = None if remaining is None else asyncio.get_running_loop().time() + remaining
            await self._clients.connect(resource, socket, deadline=deadline)
            return

        async def attempt() -> RegistrationError | None:
            try:
                await self._clients.connect(resource, socket)
            except RegistrationError as error:
                return error
            return None

        # Until 1.34 the registration continues after the plugin has given up.
        if (error := await asyncio.shield(start_task(self._tasks, attempt()))) is not None:
            raise error


def drop_connection(stream: Any) -> None:  # noqa: ANN401
    """Abort the connection of the call."""
    stream._stream._transport._transport.abort()  # noqa: SLF001  below its BufferedTransport
