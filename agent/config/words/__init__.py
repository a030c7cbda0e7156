"""The compilers of words that an entry defines: options, captures, `let`, `join`."""
