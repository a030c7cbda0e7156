"""What is on the host and which entry takes it, for people who look: taken afresh, without an agent or a kubelet."""
