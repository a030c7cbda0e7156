"""Clauses, compiled: lines, operators, operands."""
