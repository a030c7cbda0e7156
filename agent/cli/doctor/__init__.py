"""What is wrong with the host, the kubelet, the container runtime and the rights of the agent, and how to mend it.

Looks only: nothing is changed. Needs no agent and no root, and says what it could not look at. With --root, only what a
tree or a recording can tell.
Exit code 0: all is well, as far as could be seen. 1: something is to be mended (FAIL), or looked at (WARN).
"""

from __future__ import annotations

import argparse
import sys

from agent.cli.doctor.findings import FAULT_SEVERITIES, DoctorFinding, build_findings
from agent.cli.doctor.node_inspection import inspect_node
from agent.cli.output import is_json, say_json
from agent.cli.terminal import Terminal
from agent.core.language.safe_text import escape
from agent.host.root import Root

OUTPUTS = ("json", "jsonl")
VERBOSE = True
_STYLES = {"FAIL": "red", "WARN": "yellow", "NOTE": "", "ok": "dim"}


def add(parser: argparse.ArgumentParser) -> None:
    """No arguments."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Look, and say what is wrong."""
    found = build_findings(inspect_node(arguments.config, Root(arguments.root)))
    if is_json(arguments):
        say_json([_build_json(finding) for finding in found], arguments)
    else:
        terminal = Terminal.of(sys.stdout, colour=arguments.color, utc=arguments.utc)
        shown = [one for one in found if one.severity != "ok" or arguments.verbose]
        widest = max((len(one.code) for one in shown), default=0)
        for one in shown:
            print("\n".join(_lines(one, terminal, widest)))
        counts = {severity: sum(one.severity == severity for one in found) for severity in _STYLES}
        said = ", ".join(f"{count} {severity}" for severity, count in counts.items())
        print(f"{said}{'' if arguments.verbose else ' (-v)'}. Nothing was changed.")
    return 1 if any(one.severity in FAULT_SEVERITIES for one in found) else 0


def _build_json(finding: DoctorFinding) -> dict[str, str]:
    return {
        "severity": finding.severity,
        "code": finding.code,
        "what": finding.text,
        "evidence": finding.evidence,
        "fix": finding.fix,
    }


def _lines(one: DoctorFinding, terminal: Terminal, widest: int) -> list[str]:
    lines = [f"{terminal.style(f'{one.severity:4}', _STYLES[one.severity])}  {one.code:{widest}} {escape(one.text)}"]
    lines += [
        f"      {name:{widest}} {escape(text)}" for name, text in (("evidence", one.evidence), ("fix", one.fix)) if text
    ]
    return [terminal.text(line) for line in lines]
