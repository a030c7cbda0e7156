"""Grant preview: a grant without a kubelet, from a new look, in the formats of container runtimes."""
