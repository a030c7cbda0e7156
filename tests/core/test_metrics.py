"""Metrics as text, and the alerts that are made of them."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.main import COMMANDS
from agent.core.entry.check import Check, CheckResult, CheckVerdict
from agent.core.entry.check_results import DeviceCheckResult
from agent.core.entry.clause_check import ClauseCheck
from agent.core.grants.held_ids import Holder
from agent.core.health.drain_overlay import Drain, DrainSet
from agent.core.inventory.listing import Listing, SkippedPath
from agent.core.report.counter_values import CounterValues, Distribution
from agent.core.report.exposition import HistogramFamily, MetricFamily, format_families
from agent.core.report.metrics import CHECK_RESULTS, EVENT_SOURCES, KERNEL_LOG, SeriesOptions, format_metrics
from agent.core.struct import replace
from agent.counters import Counters
from tests.core.builders import candidate, clause, host, spec
from tests.core.test_report import A, bad, good, moment

RULES = Path(__file__).parents[2] / "config/prometheus-rules.yml"
LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.e+-]+|[+]Inf)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')


def read(said):
    """The series of a text, by name and labels; what is no exposition is an error."""
    series, kinds = {}, {}
    for line in said.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = LINE.fullmatch(line)
            assert match, line
            labels = tuple(sorted(LABEL.findall(match[2] or "")))
            assert (match[1], labels) not in series, line
            series[match[1], labels] = float(match[3])
            family = re.sub(r"_(bucket|sum|count)$", "", match[1])
            assert match[1] in kinds or kinds[family] == "histogram"
    return series


def get_value(series, name, **labels):
    return series[f"device_agent_{name}", tuple(sorted(labels.items()))]


def read_metrics(made, tally=None, most=512, pods=False):
    return read(format_metrics(made, tally or Counters().build_values(), "3.12", SeriesOptions(most, pods)))


def test_every_series_is_there_from_the_start():
    series = read_metrics(moment(good("a")))
    assert get_value(series, "build_info", version="1", python="3.12") == 1
    for state, value in {"waiting": 0, "registering": 0, "streaming": 1, "retired": 0}.items():
        assert get_value(series, "resource_state", resource=A, state=state) == value
    assert get_value(series, "health_transitions_total", resource=A, to="Unhealthy") == 0
    assert get_value(series, "allocations_total", resource=A, result="node_missing") == 0
    assert get_value(series, "registrations_total", resource=A, result="ok") == 0
    assert get_value(series, "change_to_list_seconds_count") == 0
    assert get_value(series, "rpc_duration_seconds_bucket", method="Allocate", le="+Inf") == 0


def test_devices_are_told_with_their_checks_and_drains():
    one = bad("a")
    one = replace(
        one,
        check_results=(
            DeviceCheckResult(
                A, Check("link", ClauseCheck(clause())), one.device.key, "a", CheckResult(CheckVerdict.FAIL, "down")
            ),
        ),
    )
    series = read_metrics(moment(one, good("b"), drained=DrainSet({"b": Drain("RMA", 1.0)})))
    assert get_value(series, "device_healthy", resource=A, device="a") == 0
    assert get_value(series, "device_drained", resource=A, device="a") == 0
    assert get_value(series, "device_drained", resource=A, device="b") == 1
    assert get_value(series, "device_check_failing", resource=A, device="a", check="link") == 1
    assert get_value(series, "resource_devices", resource=A, health="Unhealthy") == 2
    assert get_value(series, "devices_omitted", resource=A) == 0


def test_devices_are_so_many_at_most_and_shares_are_one():
    series = read_metrics(moment(*(good(f"d{n}", shares=100) for n in range(10))), most=3)
    assert sum(name == "device_agent_device_healthy" for name, _ in series) == 3
    assert get_value(series, "devices_omitted", resource=A) == 7
    assert get_value(series, "resource_devices", resource=A, health="Healthy") == 1000


def test_an_id_that_is_listed_twice_has_one_series():
    before = moment(replace(good("a"), shares=4))
    held = frozenset({"a::3"})
    made = moment(replace(good("a"), shares=2), previous=before.lists.lists, held=held)
    assert len(made.lists.lists[A].devices) == 2
    assert get_value(read_metrics(made), "device_healthy", resource=A, device="a") == 0


def test_what_was_counted():
    counts = Counters()
    counts.transitions[A, "Unhealthy"] += 3
    counts.allocations[A, "ok"] += 2
    counts.record_list(A, 100)
    counts.record_list(A, 120)
    counts.events["uevents"] += 7
    for seconds in (0.0005, 0.003, 0.003, 60.0):
        counts.change_times.observe(seconds)
    series = read_metrics(moment(good("a")), counts.build_values())
    assert get_value(series, "health_transitions_total", resource=A, to="Unhealthy") == 3
    assert get_value(series, "allocations_total", resource=A, result="ok") == 2
    assert (get_value(series, "lists_sent_total", resource=A), get_value(series, "list_size_bytes", resource=A)) == (
        2,
        120,
    )
    assert get_value(series, "events_total", source="uevents") == 7
    assert get_value(series, "events_total", source="links") == 0
    buckets = {
        le: get_value(series, "change_to_list_seconds_bucket", le=le)
        for le in ("0.001", "0.0025", "0.005", "5", "+Inf")
    }
    assert buckets == {"0.001": 1, "0.0025": 1, "0.005": 3, "5": 3, "+Inf": 4}
    assert get_value(series, "change_to_list_seconds_count") == 4
    assert get_value(series, "change_to_list_seconds_sum") == pytest.approx(60.0065)
    counts.forget(A)
    assert counts.build_values() == replace(
        counts.build_values(), transitions={}, allocations={}, sent_lists={}, list_bytes={}
    )


def test_what_checks_said_is_told_of_those_in_force():
    entry = spec(checks=(Check("link", ClauseCheck(clause())),))
    said = {("link", "ok"): 3, ("link", "timeout"): 1, ("gone", "ok"): 5}
    series = read_metrics(moment(good("a"), specs=(entry,)), Counters().build_values(said))
    told = {result: get_value(series, "checks_total", check="link", result=result) for result in CHECK_RESULTS}
    assert told == {"ok": 3, "failing": 0, "unknown": 0, "timeout": 1}
    named = {dict(labels)["check"] for name, labels in series if name == "device_agent_checks_total"}
    assert named == {"link"}


def test_a_source_that_cannot_be_looked_at_and_events_that_were_lost():
    made, counts = moment(good("a")), Counters()
    counts.event_sources_up |= {"uevents": True, "links": False}
    counts.overruns["uevents"] += 2
    source = spec().source
    odd = (SkippedPath("/dev/odd", "is no device"),)
    for oddities, up in ((odd, 1), ((*odd, SkippedPath("/sys/bus/x", "not permitted", is_source_failure=True)), 0)):
        look = replace(made.inventory, listing=Listing({source: ()}, {source: oddities}))
        series = read_metrics(replace(made, inventory=look, kernel_log_fault="not permitted"), counts.build_values())
        assert get_value(series, "source_up", source=str(source)) == up
    heard = {by: get_value(series, "event_source_up", source=by) for by in ("uevents", "links", KERNEL_LOG)}
    assert heard == {"uevents": 1, "links": 0, KERNEL_LOG: 0}
    lost = {by: get_value(series, "event_overruns_total", source=by) for by in EVENT_SOURCES}
    assert lost == {"uevents": 2, "links": 0, "inotify": 0, KERNEL_LOG: 0}


def test_pods_are_told_if_a_person_wants_them_and_are_bounded_like_devices():
    one, two = Holder("ns", "pod", "c"), Holder("ns", 'p"od', "d")
    holders = {(A, "d0::0"): (one,), (A, "d0::1"): (one, two), (A, "d1::0"): (one,), (A, "d2::0"): (one,)}
    made = moment(*(good(f"d{n}", shares=2) for n in range(3)), holders=holders)
    assert not [name for name, _ in read_metrics(made) if name == "device_agent_device_pod_info"]
    told = [labels for name, labels in read_metrics(made, most=2, pods=True) if name == "device_agent_device_pod_info"]
    found = sorted((dict(one)["device"], dict(one)["container"]) for one in told)
    assert found == [("d0", "c"), ("d0", "d"), ("d1", "c")]


def test_what_is_expected():
    entry = spec(expect=2)
    series = read_metrics(moment(good("a"), specs=(entry,), missing_devices={A: "1 of 2 expected devices"}))
    assert get_value(series, "resource_devices_expected", resource=A) == 2
    assert get_value(series, "resource_devices_short", resource=A) == 1


@given(st.text(st.characters(codec=None)), st.floats(allow_nan=False, allow_infinity=False))
def test_no_text_breaks_out_of_a_label(said, value):
    family = MetricFamily("x", "gauge", "about", [({"device": said}, value), ({}, 1)])
    lines = format_families([family]).split("\n")
    assert len(lines) == 5
    match = LINE.fullmatch(lines[2])
    assert match
    assert float(match[3]) == value
    (((_, shown),),) = [LABEL.findall(match[2])]
    clean = said.encode("utf-8", "backslashreplace").decode()
    assert re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), shown) == clean


def test_a_histogram_adds_up():
    made = HistogramFamily("x", "about", [({}, Distribution((1.0, 2.0), (1, 0, 2), 9.5))])
    assert format_families([made]).splitlines()[2:] == [
        'device_agent_x_bucket{le="1"} 1',
        'device_agent_x_bucket{le="2"} 1',
        'device_agent_x_bucket{le="+Inf"} 3',
        "device_agent_x_sum 9.5",
        "device_agent_x_count 3",
    ]


ALERTS = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_an_alert_is_made_of_metrics_that_are_there_and_ends_in_a_command(rule):
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    series = read_metrics(
        moment(good("a"), specs=(spec(expect=1),)), CounterValues(change_times=Distribution((), (0,), 0.0))
    )
    names = {name for name, _ in series}
    asked = re.findall(r"device_agent_[a-z_]+", rule["expr"])
    assert asked or "up{" in rule["expr"]
    assert set(asked) <= names
    labels = {name for _, labels in series for name, _ in labels} | {"instance"}
    used = re.findall(r"\$labels\.([a-z]+)", str(rule["annotations"]))
    assert set(used) <= labels
    last = rule["annotations"]["description"].rpartition("On the node: ")[2].split()
    assert last[0] == "systemctl" or (last[0] == "device-agent" and last[1] in COMMANDS)
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert re.fullmatch(r"[0-9]+m", rule["for"])


def test_names_and_labels_have_the_form_that_they_must_have():
    one = candidate(host("a"), "a")
    for name, labels in read_metrics(moment(one)):
        assert re.fullmatch(r"device_agent_[a-z_]+", name)
        assert all(re.fullmatch(r"[a-z]+", label) for label, _ in labels)
