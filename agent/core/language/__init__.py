"""Parts of clauses and templates: typed values, globs, tests and texts with words."""
