"""The time limits of the real kubelet. Tests can shorten them."""

from agent.core.struct import Struct


class Limits(Struct, kw_only=True):
    """All values in seconds. The defaults are those of the kubelet (dm/plugin/v1beta1, pm/)."""

    dial: float = 10.0
    dial_backoff: float = 1.0  # grpc-go's first pause, then times 1.6
    pre_start: float = 30.0
    grace: float = 300.0  # from the end of a stream until the resource is forgotten
    get_info: float = 1.0
    notify: float = 5.0
    watcher_poll: float = 0.1  # not of the kubelet, which has inotify and a pass each second
    watcher_backoff: float = 0.5
    watcher_backoff_most: float = 122.0
    pod_resources_rate: float = 100.0
    pod_resources_burst: int = 10
