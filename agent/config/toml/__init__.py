"""TOML files: what they say, where it stands, and what is wrong with it."""
