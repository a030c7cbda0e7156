"""TOML text to frozen specs: every mistake named, with its place, all in one run."""
