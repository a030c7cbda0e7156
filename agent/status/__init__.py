"""What is said of the agent while it runs: log lines, systemd's status line, the last changes."""
