"""Print the metrics of the running agent in the text format of Prometheus.

--textfile writes them to a file for the collector of node_exporter, in one atomic step. Sends a request to the running
agent, as root.
Exit code 0: success. 1: the file cannot be written. 3: no agent is running. 5: no permission.
"""

from __future__ import annotations

import argparse
import os
import tempfile

from agent.cli.agent_client import ask_agent
from agent.cli.output import report_file_error

WRITE_FAILED = 1


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `metrics`."""
    parser.add_argument(
        "--textfile", metavar="FILE", help="write the metrics to this file, for node_exporter (the name ends in .prom)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Ask the agent, and print the metrics or write them to a file. Return the exit code."""
    answer = ask_agent(arguments, {"do": "metrics"})
    if isinstance(answer, int):
        return answer
    if arguments.textfile is None:
        print(answer["text"], end="")
        return 0
    try:
        _write_file(arguments.textfile, answer["text"])
    except OSError as error:
        return report_file_error(arguments, arguments.textfile, error, WRITE_FAILED)
    return 0


def _write_file(path: str, text: str) -> None:
    """Replace a file in one step, so a concurrent reader gets the whole old file. All users may read the new file.

    Raises OSError if the file cannot be written.
    """
    directory = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=directory, delete=False) as file:
        try:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
