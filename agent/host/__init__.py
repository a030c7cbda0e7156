"""Access to the host below a root prefix: files, links, device nodes, kernel events, programs."""
