"""The measurements: `make bench`, `make bench ONLY=name`. docs/performance.md explains them."""
