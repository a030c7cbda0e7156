"""Which pods hold which devices, as the kubelet's PodResources API tells."""

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
    """No answer. `retry` tells whether the same call may do better in a while, with nothing changed by people."""

    def __init__(self, reason: str, *, can_retry: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.can_retry = can_retry


async def list_holders(socket: str, timeout_s: float) -> Mapping[tuple[str, str], tuple[Holder, ...]]:
    """The containers that hold each device, by resource and id; only devices that some container holds.

    Call it seldom: every client of the socket shares one limit of calls.

    Raises:
        Unavailable: whatever the cause; never fatal.
    """
    from agent.kubelet.messages.v1 import ListPodResourcesRequest, PodResourcesListerStub  # the first lists come first

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
    except Exception as error:  # cut short, not protobuf, not UTF-8, another type: libraries raise what they like
        raise PodResourcesUnavailable("its answer cannot be read", can_retry=True) from error


def index_holders(answer: ListPodResourcesResponse) -> Mapping[tuple[str, str], tuple[Holder, ...]]:
    """The answer by device. The kubelet repeats a device for each NUMA node it is on."""
    holders: dict[tuple[str, str], dict[Holder, None]] = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            holder = Holder(pod.namespace, pod.name, container.name)
            for devices in container.devices:
                for id in devices.device_ids:  # noqa: A001  the API's own word
                    holders.setdefault((devices.resource_name, id), {})[holder] = None
    return {device: tuple(device_holders) for device, device_holders in holders.items()}
