"""From a TOML table to one merged entry: short forms in full, used classes, overridden values."""
