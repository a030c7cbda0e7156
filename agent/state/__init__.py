"""The saved state."""
