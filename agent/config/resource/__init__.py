"""The compilers of resource settings: names, IDs, groups, shares, checks."""
