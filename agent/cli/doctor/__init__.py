"""Find faults of the host, the kubelet, the container runtime and the rights of the agent, and print the fix.

The command changes nothing. It needs no agent and no root, and it reports each test that it cannot do. With --root, it
tests only what a directory tree or a recording contains.
Exit code 0: no fault in all possible tests. 1: at least one FAIL or WARN.
"""

from __future__ import annotations

import argparse
import sys

from agent.cli.doctor.findings import FAULT_SEVERITIES, DoctorFinding, build_findings
from agent.cli.doctor.node_inspection import inspect_node
from agent.cli.output import is_json, print_json
from agent.cli.terminal import Terminal
from agent.core.language.safe_text import escape
from agent.host.root import Root

OUTPUTS = ("json", "jsonl")
VERBOSE = True
_STYLES = {"FAIL": "red", "WARN": "yellow", "NOTE": "", "ok": "dim"}


def add(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Inspect the node, print the findings and return the exit code."""
    all_findings = build_findings(inspect_node(arguments.config, Root(arguments.root)))
    if is_json(arguments):
        print_json([_build_json(finding) for finding in all_findings], arguments)
    else:
        terminal = Terminal.detect(sys.stdout, colour=arguments.color, utc=arguments.utc)
        shown_findings = [finding for finding in all_findings if finding.severity != "ok" or arguments.verbose]
        widest = max((len(finding.code) for finding in shown_findings), default=0)
        for finding in shown_findings:
            print("\n".join(_format_lines(finding, terminal, widest)))
        counts = {severity: sum(finding.severity == severity for finding in all_findings) for severity in _STYLES}
        summary = ", ".join(f"{count} {severity}" for severity, count in counts.items())
        print(f"{summary}{'' if arguments.verbose else ' (-v)'}. Nothing was changed.")
    return 1 if any(finding.severity in FAULT_SEVERITIES for finding in all_findings) else 0


def _build_json(finding: DoctorFinding) -> dict[str, str]:
    return {
        "severity": finding.severity,
        "code": finding.code,
        "what": finding.text,
        "evidence": finding.evidence,
        "fix": finding.fix,
    }


def _format_lines(finding: DoctorFinding, terminal: Terminal, widest: int) -> list[str]:
    severity = terminal.style(f"{finding.severity:4}", _STYLES[finding.severity])
    lines = [f"{severity}  {finding.code:{widest}} {escape(finding.text)}"]
    lines += [
        f"      {name:{widest}} {escape(text)}"
        for name, text in (("evidence", finding.evidence), ("fix", finding.fix))
        if text
    ]
    return [terminal.make_displayable(line) for line in lines]
