"""The interface of a running agent: control socket, commands, metrics server, and the active configuration."""
