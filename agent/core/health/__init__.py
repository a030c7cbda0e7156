"""Check states: the memory of health checks over looks and time."""
