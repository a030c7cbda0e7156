"""One process that serves every Kubernetes device plugin of a node, from TOML."""

__version__ = "0.1.0"
