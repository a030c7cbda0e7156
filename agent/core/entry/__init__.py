"""Entries of a configuration as frozen values: the sources, the conditions, the checks and what a container gets."""
