"""Grants: allocation, preferred allocation, prestart programs, IDs in use, and files for CNI plugins."""
