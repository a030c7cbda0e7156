"""The simulated kubelet and the command `device-agent lab`: for development and for trying, not for a node."""
