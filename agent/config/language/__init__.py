"""Tables of the language: its keys, forms, types and meanings."""
