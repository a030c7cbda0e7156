"""Scanners of the host: one module for each source kind, and the words of host devices."""
