"""Host report: the host devices, and the entry of each. A new look reads them, without an agent or a kubelet."""
