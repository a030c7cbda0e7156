"""The words that an entry brings with it, compiled: options, captures, `let`, `join`."""
