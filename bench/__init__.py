"""The measurements: `make bench`, `make bench ONLY=name`. What they mean: docs/performance.md."""
