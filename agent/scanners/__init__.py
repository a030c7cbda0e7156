"""What is on the host, one file per kind of source; and the words by which facts of it are asked for."""
