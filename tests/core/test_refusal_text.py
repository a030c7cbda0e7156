"""The text of a refused grant in the status of a pod: one line with a command for the node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.grants.grant import REFUSAL_LIMIT, GrantRefusedError, RefusalCause

A = "example.com/a"


@pytest.mark.parametrize(
    ("text", "device", "step"),
    [
        (f"{A} x: Unhealthy: absent", "x", "; on the node: device-agent explain x"),
        (f"{A} x: heat of y", "y", "; on the node: device-agent explain y"),
        (f"{A} x: heat", "", f"; on the node: device-agent explain {A}"),
        (f"{A}: too many; on the node: device-agent is busy", "", f"; on the node: device-agent explain {A}"),
        (f"{A}: no device is listed", "b\x1bad", f"; on the node: device-agent explain {A}"),
        (f"{A}: no device is listed", "x" * 64, f"; on the node: device-agent explain {A}"),
    ],
)
def test_it_ends_in_a_step_for_the_device_that_it_is_about(text, device, step):
    refused = GrantRefusedError(RefusalCause.UNHEALTHY, text, device=device).add_next_step(A)
    assert refused.text == text + step
    assert refused.cause is RefusalCause.UNHEALTHY


def test_it_keeps_the_step_that_it_has():
    refused = GrantRefusedError(RefusalCause.NODE_MISSING, f"{A} x: gone; try: scan y", device="x", has_step=True)
    assert refused.add_next_step(A).text == f"{A} x: gone; try: scan y"


def test_a_long_reason_gives_way_to_the_step():
    refused = GrantRefusedError(RefusalCause.DEADLINE, f"{A} x: {'long ' * 100}", device="x").add_next_step(A)
    assert len(refused.text) == REFUSAL_LIMIT
    assert refused.text.endswith("…; device-agent explain x")
    whole = f"{A} x: {'y' * 150}"
    assert (
        GrantRefusedError(RefusalCause.DEADLINE, whole, device="x").add_next_step(A).text
        == f"{whole}; device-agent explain x"
    )
    whole = f"{A} x: {'y' * 170}"
    assert GrantRefusedError(RefusalCause.DEADLINE, whole, device="x").add_next_step(A).text == whole


@given(st.text(max_size=300), st.text(min_size=1, max_size=300), st.text(max_size=300))
def test_it_is_one_printable_line_of_200(text, resource, device):
    refused = GrantRefusedError(RefusalCause.LIMIT, text, device=device).add_next_step(resource)
    assert len(refused.text) <= REFUSAL_LIMIT
    assert refused.text == str(refused)
