"""Fixtures of the simulated kubelet, for the tests of any device plugin."""
