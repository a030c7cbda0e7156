"""Compiled clauses: lines, operators and operands."""
