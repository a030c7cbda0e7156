"""Judge the configuration exactly as run would; all errors at once.

Exit code 0: nothing to change. 1: errors, or with --strict also warnings.
"""

from __future__ import annotations

import argparse
import json

from agent.config.finding import Severity, as_json, render, summary
from agent.config.load import load


def add(parser: argparse.ArgumentParser) -> None:
    """The flags of `check`."""
    parser.add_argument("--strict", action="store_true", help="take warnings for errors")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings and the verdict."""
    configuration = load(arguments.config)
    findings = configuration.findings
    if arguments.output == "json":
        print(json.dumps([as_json(finding) for finding in findings], indent=1))
    else:
        for finding in findings:
            print(render(finding))
        print(summary(findings, len(configuration.files), f"{len(configuration.resources)} resources"))
    bad = findings if arguments.strict else [f for f in findings if f.severity is Severity.ERROR]
    return 1 if bad else 0
