"""Whether checks fail now: conditions over looks and time."""
