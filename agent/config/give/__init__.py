"""`give`, compiled: nodes, mounts, variables, annotations, CDI names."""
