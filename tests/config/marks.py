"""The part of a line that a finding marks."""

from agent.config.toml.finding import Finding


def marked_by(finding: Finding) -> str:
    """The text between its columns."""
    return finding.source_line[finding.column - 1 : finding.end_column - 1]
