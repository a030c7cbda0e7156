"""Grants: the content of an Allocate response, and the preferred allocation."""
