"""Checks whose source is a program, a service or a probe instead of a file of the kernel."""
