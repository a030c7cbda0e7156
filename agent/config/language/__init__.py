"""The language as tables: its keys, their forms, kinds and meanings."""
