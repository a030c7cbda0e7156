"""The devices of each pod, from the kubelet's PodResources API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from agent.core.grants.held_ids import Holder
from agent.kubelet.grpc_channel import dial
from agent.kubelet.wire import format_error_text

if TYPE_CHECKING:
    from agent.kubelet.messages.v1 import ListPodResourcesResponse

_TRANSIENT = frozenset(
    {Status.RESOURCE_EXHAUSTED, Status.UNAVAILABLE, Status.ABORTED, Status.DEADLINE_EXCEEDED, Status.UNKNOWN}
)


class PodResourcesUnavailable(Exception):  # noqa: N818  the field's word for it
    """There was no answer. `can_retry`: the same call may succeed later without a change by an administrator."""

    def __init__(self, reason: str, *, can_retry: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.can_retry = can_retry


async def list_holders(socket: str, timeout_s: float) -> Mapping[tuple[str, str], tuple[Holder, ...]]:
    """Return the containers that hold each device, by resource and ID. Devices without a container are omitted.

    Call this rarely: all clients of the socket share one rate limit.

    Raises:
        PodResourcesUnavailable: for any cause. This is never fatal.
    """
    from agent.kubelet.messages.v1 import (
        ListPodResourcesRequest,
        PodResourcesListerStub,
    )  # the import must not delay the first lists

    try:
        async with asyncio.timeout(timeout_s), dial(socket) as channel:
            answer = await PodResourcesListerStub(channel).list(ListPodResourcesRequest(), timeout=timeout_s)
        return index_holders(answer)
    except GRPCError as error:
        text = format_error_text(f"{error.status.name}: {error.message or 'no text'}")
        raise PodResourcesUnavailable(text, can_retry=error.status in _TRANSIENT) from error
    except TimeoutError:
        raise PodResourcesUnavailable(f"no answer within {timeout_s:g} s", can_retry=True) from None
    except StreamTerminatedError as error:
        raise PodResourcesUnavailable("the connection was lost", can_retry=True) from error
    except OSError as error:
        denied = isinstance(error, PermissionError)
        raise PodResourcesUnavailable(f"{socket}: {error.strerror or error}", can_retry=not denied) from error
    except Exception as error:  # incomplete, not protobuf, not UTF-8, another type: the libraries raise many types
        raise PodResourcesUnavailable("its answer cannot be read", can_retry=True) from error


def index_holders(answer: ListPodResourcesResponse) -> Mapping[tuple[str, str], tuple[Holder, ...]]:
    """Return the holders by device. The kubelet repeats a device for each of its NUMA nodes."""
    holders: dict[tuple[str, str], dict[Holder, None]] = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            holder = Holder(pod.namespace, pod.name, container.name)
            for devices in container.devices:
                for id in devices.device_ids:  # noqa: A001  the API's own word
                    holders.setdefault((devices.resource_name, id), {})[holder] = None
    return {device: tuple(device_holders) for device, device_holders in holders.items()}
