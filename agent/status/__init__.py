"""The status of the agent: log lines, the status line of systemd, and the last changes."""
