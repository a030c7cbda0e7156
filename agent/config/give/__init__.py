"""The compilers of `give`: nodes, mounts, variables, annotations and CDI devices."""
