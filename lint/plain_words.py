"""Check that names, docstrings and pages are in plain words.

    python lint/plain_words.py            `make lint` runs this: print each fault, exit 1 if there is one
    python lint/plain_words.py PREFIX     print all faults of the files whose path begins so, allowed or not

lint/allowed.toml lists the faults that are still allowed. An entry that is no longer needed is a fault too, so the list
only gets shorter.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

STOP_WORDS = frozenset(
    """said told asked given made found seen known taken held heard gone lost left kept wanted meant moved renewed
    doubtful judged settled stirred anew alone away together apart aside again beside there here now before after one
    each every such same own ours theirs others what who whose why how when where of most more far near first""".split()
)
QUESTION_WORDS = frozenset("What Whether How Where Why Of Which That Who Whose As All When Since".split())
BOOLEAN_PREFIXES = frozenset("is has can was are should must may".split())
DIALECT = re.compile(
    r"""(?x)
   (?:^|(?<=[.;:]\s))Of\s(?!course) | \bof\s(?:which|whom|whose)\b | \b(?:says?|said|tells?|told)\b
 | \b(?:is|are|was|were)\s(?:asked|meant|dealt|had|looked\sat|looked\sfor)\b | \b(?:is|are)\sof\b
 | \b(?:anew|afresh|beside|whoever|whatever|whichever|nobody|none\s(?:is|of|such)|no\smore|as\slong\sas
      |so\s(?:many|often|much))\b
 | \b(?:What|Who|Whom|Whose)\s(?![^.]*\?)
 | \bwhat\s(?:is|was|are|it|they|a|the|no|has|comes|stands|pods|can|may|else|others)\b
 | \bit\sis\s(?:of|as|so|it)\b | \bthat\sis\s(?:there|off|gone|so)\b | \blets?\s(?:go|in)\b | \bstands?\b
 | \bcomes?\s(?:out|along)\b | \bgoes\s(?:by|with|first)\b | \bturn(?:s|ed)?\s(?:\w+\s)?down\b | \bmends?\b
 | \bg(?:ives?|iven)\sback\b | \btaken\sover\b"""
)
# Limits of a page, per 1,000 words or in words.
DIALECT_LIMIT, SEMICOLON_LIMIT, MEAN_LIMIT, LONG_LIMIT, SHARE_LIMIT = 3.0, 2.0, 17.0, 28, 0.12
DOCSTRING_DIALECT_LIMIT = 2.0
MIN_PROSE = 150  # words; a shorter page is not judged
LONG_SENTENCE = 25  # words

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Fault(NamedTuple):
    """One broken rule: the rule, the object (the key in allowed.toml), its weight and its text."""

    rule: str
    key: str
    weight: float
    text: str


def main(prefixes: tuple[str, ...]) -> int:
    """Check the project; return 1 if a rule is broken that allowed.toml does not allow, else 0."""
    allowed = {} if prefixes else tomllib.loads((ROOT / "lint" / "allowed.toml").read_text())
    modules = {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for package in ("agent", "lab")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "messages" not in path.parts
    }
    pages = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    }
    faults = [*find_name_faults(modules), *find_docstring_faults(modules), *find_page_faults(pages)]
    problems = [
        problem for problem in find_unallowed(faults, allowed) if not prefixes or any(p in problem for p in prefixes)
    ]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def find_unallowed(faults: Iterable[Fault], allowed: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield a text for each fault above its allowance, and for each allowance above its fault."""
    counts: dict[tuple[str, str], float] = defaultdict(float)
    texts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for fault in faults:
        counts[fault.rule, fault.key] += fault.weight
        texts[fault.rule, fault.key].append(fault.text)
    limits = {(rule, key): limit for rule, keys in allowed.items() for key, limit in keys.items()}
    for place, count in sorted(counts.items()):
        if count > limits.get(place, 0):
            yield from texts[place]
    for (rule, key), limit in sorted(limits.items()):
        if counts.get((rule, key), 0) < limit:
            count = counts.get((rule, key), 0)
            yield f"lint/allowed.toml: [{rule}] {key} = {limit:g}: write {count:g}, or delete the line"


def find_name_faults(modules: Mapping[str, ast.Module]) -> Iterator[Fault]:
    """Yield the names that break a rule: public classes in two modules, bare participles, pronouns and adverbs."""
    classes: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules.items():
        yield from _stop_word(path, 1, "module", Path(path).stem)
        for name in _public_types(tree):
            classes[name].append(path)
        bare = Counter[str]()
        lines: dict[str, int] = {}
        for node in ast.walk(tree):
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                yield from _stop_word(path, node.lineno, kind, node.name)
            for name, line in _bound_names(node):
                if name.strip("_") in STOP_WORDS:
                    bare[name] += 1
                    lines.setdefault(name, line)
        for name, count in sorted(bare.items()):
            text = f"{path}:{lines[name]}: the name {name} has no noun ({count} times)"
            yield Fault("bare-name", path, count, text)
    for name, paths in sorted(classes.items()):
        if len(paths) > 1:
            yield Fault(
                "class-name", name, len(paths), f"the class name {name} has several meanings: {', '.join(paths)}"
            )


def _public_types(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the public classes and type aliases of a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            name = node.name
        elif (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and "TypeAlias" in ast.unparse(node.annotation)
        ):
            name = node.target.id
        else:
            continue
        if not name.startswith("_"):
            yield name


def _stop_word(path: str, line: int, kind: str, name: str) -> Iterator[Fault]:
    """Yield a fault if the last word of a name is a stop word, or a participle that no boolean prefix explains."""
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    if not words or name.startswith("__"):
        return
    last = words[-1].lower()
    if last in STOP_WORDS and words[0].lower() not in BOOLEAN_PREFIXES:
        yield Fault(
            "last-word", f"{path}:{name}", 1, f"{path}:{line}: the {kind} {name} ends in {last!r}: name the thing"
        )


def _bound_names(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names that a node binds, with their lines: variables, arguments, fields."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id, node.lineno
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr, node.lineno
    elif isinstance(node, ast.arg):
        yield node.arg, node.lineno
    elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
        yield node.name, node.lineno


def find_docstring_faults(modules: Mapping[str, ast.Module]) -> Iterator[Fault]:
    """Yield function docstrings that begin with a question word, and the modules whose docstrings are in dialect."""
    for path, tree in modules.items():
        words, marks = 0, 0
        where: list[str] = []
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)) or not (text := ast.get_docstring(node)):
                continue
            line = getattr(node, "lineno", 1)
            beginning = text.split(maxsplit=1)[0].strip(",.;:")
            if isinstance(node, _FUNCTIONS) and beginning in QUESTION_WORDS:
                yield Fault(
                    "docstring", path, 1, f"{path}:{line}: the docstring of {node.name} begins with {beginning}"
                )
            words += len(text.split())
            found = [match.group() for match in DIALECT.finditer(text)]
            marks += len(found)
            where += [f"{path}:{line}: dialect in a docstring: {', '.join(found)}"] if found else []
        if marks > max(1.0, DOCSTRING_DIALECT_LIMIT * words / 1000):
            yield Fault("docstring-dialect", path, marks, "\n".join(where))


def find_page_faults(pages: Mapping[str, str]) -> Iterator[Fault]:
    """Yield the pages that break a limit of prose."""
    for path, text in pages.items():
        sentences = [*_sentences(text)]
        lengths = sorted(len(sentence.split()) for sentence in sentences)
        words = sum(lengths)
        if words < MIN_PROSE:
            continue
        prose = "\n".join(sentences)
        for rule, value, limit, unit in (
            (
                "page-dialect",
                len(DIALECT.findall(prose)) * 1000 / words,
                DIALECT_LIMIT,
                "dialect marks per 1,000 words",
            ),
            ("page-semicolons", prose.count(";") * 1000 / words, SEMICOLON_LIMIT, "semicolons per 1,000 words"),
            ("page-mean", words / len(lengths), MEAN_LIMIT, "words per sentence"),
            ("page-long", lengths[int(len(lengths) * 0.9)], LONG_LIMIT, "words in nine of ten sentences"),
            (
                "page-share",
                sum(n > LONG_SENTENCE for n in lengths) / len(lengths),
                SHARE_LIMIT,
                "of sentences over 25 words",
            ),
        ):
            if value > limit:
                yield Fault(rule, path, round(value, 2), f"{path}: {value:.2f} {unit}; the limit is {limit:g}")


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a Markdown page without code blocks, tables and headings; a list item is one or more."""
    text = re.sub(r"(?ms)^\s*```.*?^\s*```", "\n\n", text)
    text = re.sub(r"(?s)<!--.*?-->", "", text)
    lines: list[str] = []
    for line in text.split("\n"):
        bare = line.strip()
        if bare.startswith(("|", "#", "<", "![")) or line.startswith("    "):
            lines.append("")
        elif re.match(r"(?:[-*]|\d+\.)\s", bare):
            lines += ["", re.sub(r"^(?:[-*]|\d+\.)\s+", "", bare)]
        else:
            lines.append(bare)
    for block in re.split(r"\n\s*\n", "\n".join(lines)):
        joined = " ".join(block.split())
        joined = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", joined)
        joined = re.sub(r"`[^`]*`", lambda code: code.group().strip("`").replace(" ", "_").replace(";", ","), joined)
        for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z`*\"(\d])", joined.replace("**", "")):
            if re.search(r"[A-Za-z]", sentence):
                yield sentence


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
