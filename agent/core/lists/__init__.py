"""Which ids are listed: what stays of a list, who joins it, who waits."""
