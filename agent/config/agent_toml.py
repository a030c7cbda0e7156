"""The `agent.toml` of a configuration directory, with default directories in the same directory."""

from __future__ import annotations

import os

from agent.config import settings
from agent.config.settings import DIRECTORY, PathSettings, Settings
from agent.config.toml.files import ConfigFiles, make_unreadable_finding
from agent.config.toml.finding import Finding, Severity
from agent.core.struct import replace


def read_agent_toml(files: ConfigFiles, findings: list[Finding]) -> Settings:
    """Return the settings of agent.toml, or the defaults. Default directories are in the directory of agent.toml."""
    path = os.path.join(files.directory, "agent.toml")
    result = Settings()
    if not os.path.isdir(files.directory):
        reason = "is no directory" if os.path.lexists(files.directory) else "is not there"
        message = f"the configuration directory {reason}; nothing is configured"
        findings.append(make_unreadable_finding(files.directory, message, Severity.WARNING))
    elif os.path.lexists(path) and (document := files.read_document(path)) is not None:
        result, settings_findings = settings.read_settings(document)
        findings += settings_findings
    default = PathSettings()
    paths = result.paths
    if paths.resources == default.resources:
        paths = replace(paths, resources=_move_path(files.directory, paths.resources))
    if paths.classes == default.classes:
        paths = replace(paths, classes=tuple(_move_path(files.directory, item) for item in paths.classes))
    return replace(result, paths=paths)


def _move_path(directory: str, path: str) -> str:
    """Return a path below the default directory as a path below this directory."""
    below = path.removeprefix(f"{DIRECTORY}/")
    return path if below == path else os.path.join(directory, below)
