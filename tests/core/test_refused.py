"""What a pod's status says of a refused grant: one line, with what to type on the node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.grants.grant import REFUSAL_LIMIT, GrantRefusedError, RefusalCause

A = "example.com/a"


@pytest.mark.parametrize(
    ("text", "ids", "said"),
    [
        (f"{A} x: Unhealthy: absent", ["x"], f"{A} x: Unhealthy: absent; on the node: device-agent explain x"),
        (f"{A} y: heat", ["x::0", "y::12"], f"{A} y: heat; on the node: device-agent explain y"),
        (f"{A} x: gone; on the node: device-agent scan y", ["x"], f"{A} x: gone; on the node: device-agent scan y"),
        (f"{A}: too many", ["9"], f"{A}: too many; on the node: device-agent explain {A}"),
        (f"{A}: no device 'b\x1bad' is listed", ["b\x1bad"], f"{A}: no device 'b\\x1bad' is listed; on the node: "),
    ],
)
def test_it_ends_in_a_step(text, ids, said):
    refused = GrantRefusedError(RefusalCause.UNHEALTHY, text).explained(A, ids)
    assert refused.text.startswith(said)
    assert refused.text.count("on the node: ") == 1
    assert refused.cause is RefusalCause.UNHEALTHY


def test_a_long_reason_gives_way_to_the_step():
    refused = GrantRefusedError(RefusalCause.DEADLINE, f"{A} x: {'long ' * 100}").explained(A, ["x"])
    assert len(refused.text) == REFUSAL_LIMIT
    assert refused.text.endswith("…; device-agent explain x")
    whole = f"{A} x: {'y' * 150}"
    assert (
        GrantRefusedError(RefusalCause.DEADLINE, whole).explained(A, ["x"]).text == f"{whole}; device-agent explain x"
    )
    whole = f"{A} x: {'y' * 170}"
    assert GrantRefusedError(RefusalCause.DEADLINE, whole).explained(A, ["x"]).text == whole


@given(st.text(max_size=300), st.text(min_size=1, max_size=300), st.lists(st.text(max_size=300), max_size=3))
def test_it_is_one_printable_line_of_200(text, resource, ids):
    refused = GrantRefusedError(RefusalCause.LIMIT, text).explained(resource, ids)
    assert len(refused.text) <= REFUSAL_LIMIT
    assert refused.text == str(refused)
