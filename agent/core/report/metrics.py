"""Metrics of an agent.

Label values are fixed words, or come from the configuration and the device lists. They contain no reason, no path and
no text from hardware.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from agent.core.entry.check import UnknownCause
from agent.core.grants.grant import RefusalCause
from agent.core.health.check_states import DeviceRef
from agent.core.health.evaluation_step import FAILING, OK
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import AgentSnapshot
from agent.core.report.counter_values import CounterValues
from agent.core.report.exposition import HistogramFamily, Labels, MetricFamily, Sample, format_families
from agent.core.struct import Struct

STATES = (*(phase.value for phase in Phase), "retired")
REGISTRATIONS = ("ok", "refused", "failed")
KERNEL_LOG = "kernel log"
EVENT_SOURCES = ("uevents", "links", "inotify", KERNEL_LOG)
CHECK_RESULTS = (OK, FAILING, *(doubt.value for doubt in UnknownCause))
ALLOCATIONS = ("ok", *(cause.value for cause in RefusalCause), "cancelled", "defect")


class SeriesOptions(Struct):
    """Limits for the series of devices.

    max_devices: devices of one resource that have series, the first in list order.
    with_pods: whether there is a series for each container that uses a device.
    """

    max_devices: int = 512
    with_pods: bool = False


def format_metrics(snapshot: AgentSnapshot, counters: CounterValues, python: str, options: SeriesOptions) -> str:
    """Return all metrics as text. python: the version of Python."""
    return format_families(
        (
            *_build_agent_metrics(snapshot, python),
            *_build_resource_metrics(snapshot),
            *_build_device_metrics(snapshot, options),
            *_build_counter_metrics(snapshot, counters),
        )
    )


def _build_agent_metrics(snapshot: AgentSnapshot, python: str) -> Iterator[MetricFamily]:
    configuration = snapshot.configuration
    load_time = snapshot.wall_time - (snapshot.current_time - configuration.load_time)
    versions = {"version": snapshot.version, "python": python}
    yield _build_gauge("build_info", "Which device-agent this is; always 1.", [(versions, 1)])
    yield _build_gauge("config_info", "The configuration in force; always 1.", [({"digest": configuration.digest}, 1)])
    yield _build_gauge(
        "config_last_reload_successful", "Whether the last reload was done.", [({}, not configuration.reload_error)]
    )
    yield _build_gauge("config_last_reload_success_timestamp_seconds", "When that was.", [({}, round(load_time, 3))])
    yield _build_gauge("config_errors", "Errors in files that are left out.", [({}, configuration.error_count)])
    yield _build_gauge(
        "kubelet_up", "Whether the kubelet has streams of resources.", [({}, snapshot.kubelet.up is True)]
    )
    yield _build_gauge(
        "pod_resources_up", "Whether PodResources answered last time.", [({}, snapshot.pod_resources_up)]
    )
    yield _build_counter(
        "kubelet_restarts_total", "How often the kubelet came back.", [({}, snapshot.kubelet.restarts)]
    )


def _build_resource_metrics(snapshot: AgentSnapshot) -> Iterator[MetricFamily]:
    lists = snapshot.lists.lists
    states = {name: _get_state(snapshot, name) for name in lists}
    yield _build_gauge(
        "resource_state",
        "1 for the state that a resource is in.",
        [({"resource": name, "state": state}, states[name] == state) for name in lists for state in STATES],
    )
    yield _build_gauge(
        "resource_streams", "Open streams.", [(_label_resource(name), _count_streams(snapshot, name)) for name in lists]
    )
    yield _build_gauge(
        "resource_devices",
        "Devices as the kubelet counts them.",
        [
            ({**_label_resource(name), "health": health.value}, device_list.count_ids(health))
            for name, device_list in lists.items()
            for health in Health
        ],
    )
    in_use = Counter(resource for resource, _ in snapshot.holders)
    yield _build_gauge(
        "resource_devices_in_use", "Those that pods hold.", [(_label_resource(name), in_use[name]) for name in lists]
    )
    expected = {spec.name: spec.expect for spec in snapshot.specs if spec.expect is not None and spec.name in lists}
    yield _build_gauge(
        "resource_devices_expected",
        "Host devices expected.",
        [(_label_resource(name), expected_count) for name, expected_count in expected.items()],
    )
    yield _build_gauge(
        "resource_devices_short",
        "Whether there are fewer than expected.",
        [(_label_resource(name), name in snapshot.missing_devices) for name in expected],
    )


def _build_device_metrics(snapshot: AgentSnapshot, options: SeriesOptions) -> Iterator[MetricFamily]:
    lists = snapshot.lists.lists.values()
    devices = [
        (device_list.resource, device) for device_list in lists for device in device_list.devices[: options.max_devices]
    ]
    yield _build_gauge(
        "device_healthy",
        "Whether a device is Healthy.",
        _merge_series(
            ((_label_device(name, device), device.health is Health.HEALTHY) for name, device in devices), min
        ),
    )
    yield _build_gauge(
        "device_drained",
        "Whether a person has taken it out of scheduling.",
        _merge_series(
            (
                (_label_device(name, device), snapshot.drains.find_drain(name, device.locations) is not None)
                for name, device in devices
            ),
            max,
        ),
    )
    check_samples = [sample for name, device in devices for sample in _build_check_samples(snapshot, name, device)]
    yield _build_gauge("device_check_failing", "Whether a check of a device fails.", _merge_series(check_samples, max))
    if options.with_pods:
        pod_samples = [sample for name, device in devices for sample in _build_pod_samples(snapshot, name, device)]
        yield _build_gauge(
            "device_pod_info", "Which container holds a device; always 1.", _merge_series(pod_samples, max)
        )
    omitted = [
        (_label_resource(device_list.resource), max(0, len(device_list.devices) - options.max_devices))
        for device_list in lists
    ]
    yield _build_gauge("devices_omitted", "Devices that have no series of their own.", omitted)


def _build_pod_samples(snapshot: AgentSnapshot, name: str, device: Device) -> Iterator[Sample]:
    for id in device.list_ids():  # noqa: A001  the API's own word
        for holder in snapshot.holders.get((name, id), ()):
            yield (
                {
                    **_label_device(name, device),
                    "namespace": holder.namespace,
                    "pod": holder.pod,
                    "container": holder.container,
                },
                1,
            )


def _build_check_samples(snapshot: AgentSnapshot, name: str, device: Device) -> Iterator[Sample]:
    candidate = snapshot.find_candidate(name, device)
    for result in candidate.check_results if candidate else ():
        device_states = snapshot.check_states.present_devices.get(DeviceRef(result.entry, result.device_key))
        state = device_states.check_states.get(result.check.name) if device_states else None
        yield {**_label_device(name, device), "check": result.check.name}, state is not None and state.failing


def _build_counter_metrics(
    snapshot: AgentSnapshot, counters: CounterValues
) -> Iterator[MetricFamily | HistogramFamily]:
    lists = snapshot.lists.lists
    healths = [health.value for health in Health]
    yield _build_result_counter(
        "health_transitions_total", "Devices that changed.", lists, ("to", healths), counters.transitions
    )
    blips = [(_label_resource(name), counters.blips.get(name, 0)) for name in lists]
    yield _build_counter("device_blips_total", "Devices that were gone and back between two looks.", blips)
    yield _build_result_counter(
        "registrations_total", "Registrations.", lists, ("result", REGISTRATIONS), counters.registrations
    )
    yield _build_result_counter(
        "allocations_total", "Containers asked for.", lists, ("result", ALLOCATIONS), counters.allocations
    )
    yield _build_counter(
        "lists_sent_total", "Lists sent.", [(_label_resource(name), counters.sent_lists.get(name, 0)) for name in lists]
    )
    sizes = [(_label_resource(name), counters.list_bytes.get(name, 0)) for name in lists]
    yield _build_gauge("list_size_bytes", "Size of the list sent last.", sizes)
    names = dict.fromkeys(check.name for spec in snapshot.specs for check in spec.list_checks())
    check_samples = [
        ({"check": name, "result": result}, counters.check_results.get((name, result), 0))
        for name in names
        for result in CHECK_RESULTS
    ]
    yield _build_counter("checks_total", "What checks said at looks.", check_samples)
    yield from _build_source_metrics(snapshot, counters)
    if counters.change_times is not None:
        yield HistogramFamily(
            "change_to_list_seconds", "From an event to the list on the last stream.", [({}, counters.change_times)]
        )
    if counters.look_times is not None:
        yield HistogramFamily("scan_duration_seconds", "How long looks at the host take.", [({}, counters.look_times)])
    call_samples = [({"method": method}, distribution) for method, distribution in counters.call_times.items()]
    yield HistogramFamily("rpc_duration_seconds", "How long the kubelet waits for an answer.", call_samples)


def _build_source_metrics(snapshot: AgentSnapshot, counters: CounterValues) -> Iterator[MetricFamily]:
    listing = snapshot.inventory.listing
    device_counts = [({"source": str(source)}, len(devices)) for source, devices in listing.devices.items()]
    yield _build_gauge("host_devices", "Host devices that a source shows.", device_counts)
    up = [
        (
            {"source": str(source)},
            not any(skipped_path.is_source_failure for skipped_path in listing.skipped_paths.get(source, ())),
        )
        for source in listing.devices
    ]
    yield _build_gauge("source_up", "Whether a source can be looked at.", up)
    sources_up = {**counters.event_sources_up, KERNEL_LOG: not snapshot.kernel_log_fault}
    yield _build_gauge(
        "event_source_up",
        "Whether events come from there.",
        [({"source": event_source}, up) for event_source, up in sources_up.items()],
    )
    events = [({"source": event_source}, counters.events.get(event_source, 0)) for event_source in EVENT_SOURCES]
    yield _build_counter("events_total", "Events that were looked into, and lines of the kernel log.", events)
    yield _build_counter(
        "event_overruns_total",
        "How often events were lost, so that everything was looked at.",
        [({"source": event_source}, counters.overruns.get(event_source, 0)) for event_source in EVENT_SOURCES],
    )


def _build_result_counter(
    name: str,
    help_text: str,
    lists: Mapping[str, DeviceList],
    values: tuple[str, Iterable[str]],
    counts: Mapping[tuple[str, str], int],
) -> MetricFamily:
    label, label_values = values[0], tuple(values[1])
    return _build_counter(
        name,
        help_text,
        [
            ({**_label_resource(resource), label: value}, counts.get((resource, value), 0))
            for resource in lists
            for value in label_values
        ],
    )


def _get_state(snapshot: AgentSnapshot, name: str) -> str:
    state = snapshot.states.get(name)
    return "retired" if snapshot.find_entry(name) is None else state.phase.value if state else Phase.WAITING.value


def _count_streams(snapshot: AgentSnapshot, name: str) -> int:
    return snapshot.streams[name].open_count if name in snapshot.streams else 0


def _merge_series(samples: Iterable[Sample], choose: Callable[[float, float], float]) -> list[Sample]:
    """Return one sample for each series, the worst. An ID can be in a list twice while its shares retire."""
    series_values: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in samples:
        key = tuple(labels.items())
        series_values[key] = choose(series_values.get(key, value), value)
    return [(dict(key), value) for key, value in series_values.items()]


def _label_device(resource: str, device: Device) -> Labels:
    return {"resource": resource, "device": device.id}


def _label_resource(resource: str) -> Labels:
    return {"resource": resource}


def _build_gauge(name: str, help_text: str, samples: Iterable[Sample]) -> MetricFamily:
    return MetricFamily(name, "gauge", help_text, list(samples))


def _build_counter(name: str, help_text: str, samples: Iterable[Sample]) -> MetricFamily:
    return MetricFamily(name, "counter", help_text, list(samples))
