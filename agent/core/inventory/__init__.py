"""The inventory: what the host has, and which entry takes which host device."""
