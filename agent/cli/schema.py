"""Print the configuration language as a JSON Schema, for editors.

The schema is for a file of resources, or with --class for a device class. With FILE, the schema also contains the words
of the entries in this file. Only `check` tests words, merged entries and rules that depend on devices.
"""

from __future__ import annotations

import argparse
import json
import os

from agent.cli.output import NO_SUCH_NAME, fail
from agent.config import schema
from agent.config.clause_words import list_entry_words

OUTPUTS = ("json",)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `schema`."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="a file of resources; the schema then contains its words"
    )
    parser.add_argument("--class", dest="of_class", action="store_true", help="print the schema of a device class")


def run(arguments: argparse.Namespace) -> int:
    """Print the JSON Schema. Return the exit code."""
    if arguments.of_class:
        document = schema.build_class_schema()
    elif arguments.file is None:
        document = schema.build_resource_schema()
    elif not os.path.isfile(arguments.file):
        return fail(arguments, f"{arguments.file}: no such file", NO_SUCH_NAME)
    else:
        document = schema.build_resource_schema(list_entry_words(arguments.config, arguments.file))
    print(json.dumps(document, indent=1))
    return 0
