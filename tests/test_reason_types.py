"""No module decides by the words of a reason. Causes, checks and paths are fields, and texts are for people."""

import ast
from pathlib import Path

import pytest

AGENT = Path(__file__).parent.parent / "agent"
SENTENCES = frozenset(
    {"reason", "reasons", "fault", "faults", "waits", "unfit", "ailing"}
    | {"not_ready_reason", "unhealthy_reason", "missing_id_reason", "unhealthy_partners"}
    | {"unwritten", "deaf", "crowded", "notice"}
)
TAKES_APART = frozenset(
    {"startswith", "endswith", "partition", "rpartition", "split", "rsplit"}
    | {"removeprefix", "removesuffix", "find", "rfind", "index", "count"}
)
MATCHES = frozenset(["match", "fullmatch", "search", "findall", "finditer", "sub"])
SHOWS = frozenset(["str", "escape", "cut", "printable"])  # what they return is the same sentence

# Doctor reads the JSON status of the agent, and no key of that tells why a check is unknown.
ALLOWED = {"cli/doctor/node_inspection.py": 1}


def find_name(node):
    """Return the name of an expression that is a name, an attribute or a key; else None."""
    match node:
        case ast.Name(name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(name)):
            return name if isinstance(name, str) else None
        case ast.Call(ast.Name(name), [inner, *_]) if name in SHOWS:
            return find_name(inner)
        case ast.BoolOp(values=[first, *_]):
            return find_name(first)
        case ast.Call(ast.Attribute(value, method)) if method in TAKES_APART | {"lower", "strip"}:
            return find_name(value)
    return None


def has_words(node):
    """Whether an expression is a text that stands in the code, or a constant; `NO_REASON` is none."""
    if isinstance(node, ast.Name):
        return node.id.isupper() and node.id != "NO_REASON"
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return any(map(has_words, node.elts))
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def is_empty(node):
    return isinstance(node, ast.Constant) and not node.value


def decisions(tree):
    """The lines that take a sentence apart, or compare it with words."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(value, method)) if method in TAKES_APART and find_name(value) in SENTENCES:
                yield node.lineno
            case ast.Call(ast.Attribute(_, method), args) if method in MATCHES:
                if any(find_name(each) in SENTENCES for each in args):
                    yield node.lineno
            case ast.Compare(left, _, others):
                sides = [left, *others]
                if any(find_name(each) in SENTENCES for each in sides) and any(
                    has_words(each) and not is_empty(each) for each in sides
                ):
                    yield node.lineno
            case ast.Match(subject) if find_name(subject) in SENTENCES:
                yield node.lineno


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(AGENT.rglob("*.py")) if "messages" not in path.parts],
    ids=lambda path: str(path.relative_to(AGENT)),
)
def test_no_module_decides_by_the_words_of_a_reason(path):
    lines = list(decisions(ast.parse(path.read_text())))
    assert len(lines) == ALLOWED.get(str(path.relative_to(AGENT)), 0), lines


@pytest.mark.parametrize(
    "line",
    [
        'state.reason.startswith("kubelet")',
        "device.reason.startswith(DRAINED)",
        'one.reason.partition(": ")[0]',
        'str(device.reason).removeprefix("kubelet: ")',
        'state.reason != "starting"',
        "entry.reason != _GONE",
        '"the kernel log: " in (check["reason"] or "")',
        '"the kernel log: " in reason',
        "_NODE.search(reason)",
        're.search("x", str(one.fault))',
        'reason in {"a", "b"}',
        'candidate.not_ready_reason == f"waits for {x}"',
        'moment.unwritten.partition(": ")',
    ],
)
def test_the_check_sees_what_it_should(line):
    assert list(decisions(ast.parse(line))) == [1]


@pytest.mark.parametrize(
    "line", ["reason == other.reason", "reason == NO_REASON", 'reason == ""', "reason.cause is Cause.A", "not reason"]
)
def test_the_check_lets_pass_what_it_should(line):
    assert list(decisions(ast.parse(line))) == []
