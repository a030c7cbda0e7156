"""Exceptions of the simulated kubelet."""


class KubeletCrashed(Exception):  # noqa: N818 - it says what happened
    """The real kubelet would have panicked here because of the plugin."""


class KubeletStopped(Exception):  # noqa: N818
    """No kubelet runs, or it ended during the call."""


class PodRefused(Exception):  # noqa: N818
    """The admission failed, finally for this pod. `reason` and `message` as in its status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class AllocationError(Exception):
    """A step of the allocation failed, with the text of the device manager (dm/manager.go)."""


class RpcError(Exception):
    """A call to the plugin failed, with the text of grpc-go."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {text}")
        self.code = code
        self.text = text
