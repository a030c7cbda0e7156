"""Reading the machine under a root prefix: files, links, nodes, and what says that they changed."""
