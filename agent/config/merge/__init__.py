"""From a table of a file to one sentence: short forms written out, classes used, values overridden."""
