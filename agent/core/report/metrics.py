"""The metrics of an agent at a moment. Values of labels are closed sets, or come from the configuration and the lists;
never a reason, a path or what hardware says of itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from agent.core.entry.check import UnknownCause
from agent.core.grants.grant import RefusalCause
from agent.core.health.check_states import DeviceRef
from agent.core.health.evaluation_step import FAILING, OK
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.registration_phase import Phase
from agent.core.report.agent_snapshot import AgentSnapshot
from agent.core.report.counter_values import CounterValues
from agent.core.report.exposition import HistogramFamily, Labels, MetricFamily, Sample, format_families

STATES = (*(phase.value for phase in Phase), "retired")
REGISTRATIONS = ("ok", "refused", "failed")
KERNEL_LOG = "kernel log"
EVENT_SOURCES = ("uevents", "links", "inotify", KERNEL_LOG)
CHECK_RESULTS = (OK, FAILING, *(doubt.value for doubt in UnknownCause))
ALLOCATIONS = ("ok", *(cause.value for cause in RefusalCause), "cancelled", "defect")


class SeriesOptions(NamedTuple):
    """What is shown: of one resource so many devices, the first in list order, and whether the pods that hold them."""

    max_devices: int = 512
    with_pods: bool = False


def format_metrics(moment: AgentSnapshot, tally: CounterValues, python: str, shown: SeriesOptions) -> str:
    """All metrics as text."""
    return format_families(
        (*_agent(moment, python), *_resources(moment), *_devices(moment, shown), *_counted(moment, tally))
    )


def _agent(moment: AgentSnapshot, python: str) -> Iterator[MetricFamily]:
    said = moment.configuration
    loaded = moment.wall_time - (moment.current_time - said.load_time)
    versions = {"version": moment.version, "python": python}
    yield _gauge("build_info", "Which device-agent this is; always 1.", [(versions, 1)])
    yield _gauge("config_info", "The configuration in force; always 1.", [({"digest": said.digest}, 1)])
    yield _gauge("config_last_reload_successful", "Whether the last reload was done.", [({}, not said.reload_error)])
    yield _gauge("config_last_reload_success_timestamp_seconds", "When that was.", [({}, round(loaded, 3))])
    yield _gauge("config_errors", "Errors in files that are left out.", [({}, said.error_count)])
    yield _gauge("kubelet_up", "Whether the kubelet has streams of resources.", [({}, moment.kubelet.up is True)])
    yield _gauge("pod_resources_up", "Whether PodResources answered last time.", [({}, moment.pod_resources_up)])
    yield _counter("kubelet_restarts_total", "How often the kubelet came back.", [({}, moment.kubelet.restarts)])


def _resources(moment: AgentSnapshot) -> Iterator[MetricFamily]:
    lists = moment.lists.snapshots
    states = {name: _state(moment, name) for name in lists}
    yield _gauge(
        "resource_state",
        "1 for the state that a resource is in.",
        [({"resource": name, "state": state}, states[name] == state) for name in lists for state in STATES],
    )
    yield _gauge("resource_streams", "Open streams.", [(_of(name), _streams(moment, name)) for name in lists])
    yield _gauge(
        "resource_devices",
        "Devices as the kubelet counts them.",
        [
            ({**_of(name), "health": health.value}, list_.count(health))
            for name, list_ in lists.items()
            for health in Health
        ],
    )
    in_use = Counter(resource for resource, _ in moment.holders)
    yield _gauge("resource_devices_in_use", "Those that pods hold.", [(_of(name), in_use[name]) for name in lists])
    expected = {spec.name: spec.expect for spec in moment.specs if spec.expect is not None and spec.name in lists}
    yield _gauge(
        "resource_devices_expected", "Host devices expected.", [(_of(name), n) for name, n in expected.items()]
    )
    yield _gauge(
        "resource_devices_short",
        "Whether there are fewer than expected.",
        [(_of(name), name in moment.missing_devices) for name in expected],
    )


def _devices(moment: AgentSnapshot, what: SeriesOptions) -> Iterator[MetricFamily]:
    lists = moment.lists.snapshots.values()
    shown = [(list_.resource, device) for list_ in lists for device in list_.devices[: what.max_devices]]
    yield _gauge(
        "device_healthy",
        "Whether a device is Healthy.",
        _once(((_series(name, device), device.health is Health.HEALTHY) for name, device in shown), min),
    )
    yield _gauge(
        "device_drained",
        "Whether a person has taken it out of scheduling.",
        _once(((_series(name, one), moment.drains.of(name, one.places) is not None) for name, one in shown), max),
    )
    checks = [one for name, device in shown for one in _checks(moment, name, device)]
    yield _gauge("device_check_failing", "Whether a check of a device fails.", _once(checks, max))
    if what.with_pods:
        holds = [one for name, device in shown for one in _pods(moment, name, device)]
        yield _gauge("device_pod_info", "Which container holds a device; always 1.", _once(holds, max))
    omitted = [(_of(list_.resource), max(0, len(list_.devices) - what.max_devices)) for list_ in lists]
    yield _gauge("devices_omitted", "Devices that have no series of their own.", omitted)


def _pods(moment: AgentSnapshot, name: str, device: Device) -> Iterator[Sample]:
    for id in device.ids():  # noqa: A001  the API's own word
        for one in moment.holders.get((name, id), ()):
            yield {**_series(name, device), "namespace": one.namespace, "pod": one.pod, "container": one.container}, 1


def _checks(moment: AgentSnapshot, name: str, device: Device) -> Iterator[Sample]:
    found = moment.find_candidate(name, device)
    for one in found.check_results if found else ():
        ward = moment.check_states.there.get(DeviceRef(one.entry, one.device_key))
        condition = ward.conditions.get(one.check.name) if ward else None
        yield {**_series(name, device), "check": one.check.name}, condition is not None and condition.failing


def _counted(moment: AgentSnapshot, tally: CounterValues) -> Iterator[MetricFamily | HistogramFamily]:
    lists = moment.lists.snapshots
    healths = [health.value for health in Health]
    yield _tallied("health_transitions_total", "Devices that changed.", lists, ("to", healths), tally.transitions)
    blips = [(_of(name), tally.blips.get(name, 0)) for name in lists]
    yield _counter("device_blips_total", "Devices that were gone and back between two looks.", blips)
    yield _tallied("registrations_total", "Registrations.", lists, ("result", REGISTRATIONS), tally.registrations)
    yield _tallied("allocations_total", "Containers asked for.", lists, ("result", ALLOCATIONS), tally.allocations)
    yield _counter("lists_sent_total", "Lists sent.", [(_of(name), tally.sent_lists.get(name, 0)) for name in lists])
    sizes = [(_of(name), tally.list_bytes.get(name, 0)) for name in lists]
    yield _gauge("list_size_bytes", "Size of the list sent last.", sizes)
    names = dict.fromkeys(check.name for spec in moment.specs for check in spec.list_checks())
    said = [
        ({"check": name, "result": one}, tally.check_results.get((name, one), 0))
        for name in names
        for one in CHECK_RESULTS
    ]
    yield _counter("checks_total", "What checks said at looks.", said)
    yield from _sources(moment, tally)
    if tally.change_times is not None:
        yield HistogramFamily(
            "change_to_list_seconds", "From an event to the list on the last stream.", [({}, tally.change_times)]
        )
    if tally.look_times is not None:
        yield HistogramFamily("scan_duration_seconds", "How long looks at the host take.", [({}, tally.look_times)])
    by_method = [({"method": method}, measured) for method, measured in tally.call_times.items()]
    yield HistogramFamily("rpc_duration_seconds", "How long the kubelet waits for an answer.", by_method)


def _sources(moment: AgentSnapshot, tally: CounterValues) -> Iterator[MetricFamily]:
    listing = moment.inventory.listing
    found = [({"source": str(source)}, len(devices)) for source, devices in listing.found.items()]
    yield _gauge("host_devices", "Host devices that a source shows.", found)
    up = [
        ({"source": str(source)}, not any(oddity.failed for oddity in listing.oddities.get(source, ())))
        for source in listing.found
    ]
    yield _gauge("source_up", "Whether a source can be looked at.", up)
    told = {**tally.event_sources_up, KERNEL_LOG: not moment.kernel_log_fault}
    yield _gauge(
        "event_source_up", "Whether events come from there.", [({"source": by}, up) for by, up in told.items()]
    )
    events = [({"source": by}, tally.events.get(by, 0)) for by in EVENT_SOURCES]
    yield _counter("events_total", "Events that were looked into, and lines of the kernel log.", events)
    yield _counter(
        "event_overruns_total",
        "How often events were lost, so that everything was looked at.",
        [({"source": by}, tally.overruns.get(by, 0)) for by in EVENT_SOURCES],
    )


def _tallied(
    name: str,
    about: str,
    lists: Mapping[str, DeviceList],
    values: tuple[str, Iterable[str]],
    counted: Mapping[tuple[str, str], int],
) -> MetricFamily:
    label, closed = values[0], tuple(values[1])
    return _counter(
        name, about, [({**_of(one), label: value}, counted.get((one, value), 0)) for one in lists for value in closed]
    )


def _state(moment: AgentSnapshot, name: str) -> str:
    state = moment.states.get(name)
    return "retired" if moment.find_entry(name) is None else state.phase.value if state else Phase.WAITING.value


def _streams(moment: AgentSnapshot, name: str) -> int:
    return moment.streams[name].open_count if name in moment.streams else 0


def _once(samples: Iterable[Sample], choose: Callable[[float, float], float]) -> list[Sample]:
    """One sample for each series, the worst: an id can be listed twice, while shares of it leave."""
    found: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in samples:
        key = tuple(labels.items())
        found[key] = choose(found.get(key, value), value)
    return [(dict(key), value) for key, value in found.items()]


def _series(resource: str, device: Device) -> Labels:
    return {"resource": resource, "device": device.id}


def _of(resource: str) -> Labels:
    return {"resource": resource}


def _gauge(name: str, about: str, samples: Iterable[Sample]) -> MetricFamily:
    return MetricFamily(name, "gauge", about, list(samples))


def _counter(name: str, about: str, samples: Iterable[Sample]) -> MetricFamily:
    return MetricFamily(name, "counter", about, list(samples))
