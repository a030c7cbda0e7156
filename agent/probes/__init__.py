"""Probes that come along: programs of their own, which import nothing of the agent. See docs/probes.md."""
