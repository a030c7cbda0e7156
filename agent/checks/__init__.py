"""Checks that ask somebody else than the kernel's files: programs, services, probes."""
