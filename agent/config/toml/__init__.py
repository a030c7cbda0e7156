"""TOML files: parsing, positions and findings."""
