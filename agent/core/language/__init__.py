"""What clauses and texts are made of: typed values, patterns, tests, texts with words in them."""
