"""The measurements, one per file: `NAME` and `measure(subjects, size)`. Each runs on all servers in turn."""
