"""Each promise has tests that exist."""

import re

import pytest

from tests.cli.conftest import TOP

PAGE = (TOP / "docs/promises.md").read_text("utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
PROMISES = {promise: proofs for promise, proofs in ROWS if promise not in {"promise", "---"}}


def test_every_promise_is_made_once():
    assert len(PROMISES) == sum(promise not in {"promise", "---"} for promise, _ in ROWS) > 0


@pytest.mark.parametrize("promise", PROMISES)
def test_what_proves_a_promise_is_there(promise):
    proofs = re.findall(r"`([^`]+)`", PROMISES[promise])
    assert proofs
    assert " ".join(f"`{proof}`" for proof in proofs) == PROMISES[promise]
    for proof in proofs:
        path, _, name = proof.partition("::")
        text = (TOP / path).read_text("utf-8")
        if name:
            assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), proof
        else:
            assert path.startswith("tests/scenarios/"), proof
            assert path.endswith(".toml"), proof
