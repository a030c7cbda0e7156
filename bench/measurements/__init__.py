"""The measurements, one a file: `NAME`, and `measure(subjects, size)`. On all servers in turn, change by change."""
