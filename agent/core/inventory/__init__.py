"""What the host has, and which entry takes which of it."""
