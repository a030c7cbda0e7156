"""The included probes: separate programs that import nothing of the agent. See docs/probes.md."""
