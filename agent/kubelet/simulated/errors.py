"""What a simulated kubelet raises in the face of the one who drives it."""


class KubeletCrashed(Exception):  # noqa: N818 - it says what happened
    """The real kubelet would have panicked here, because of what the plugin did."""


class KubeletStopped(Exception):  # noqa: N818
    """There is no kubelet running, or it went away during the call."""


class PodRefused(Exception):  # noqa: N818
    """Admission failed, finally for this pod: `reason` and `message` as in its status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class AllocationError(Exception):
    """A step of the allocation failed; the text is the device manager's own (dm/manager.go)."""


class RpcError(Exception):
    """A call to the plugin failed; the text is as grpc-go prints it."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {text}")
        self.code = code
        self.text = text
