"""What is said of a resource and its devices, compiled: names, ids, groups, shares, health."""
