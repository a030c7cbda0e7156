"""From TOML text to frozen specs. One run finds every error, with its position."""
