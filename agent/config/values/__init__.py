"""Leaves of an entry: checked templates, values and tables."""
