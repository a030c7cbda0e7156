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
