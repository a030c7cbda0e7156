"""The device lists: which devices stay, which candidates are new, and which must wait."""
