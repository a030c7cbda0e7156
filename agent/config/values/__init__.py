"""Leaves of a sentence: texts, values and tables with words in them, judged."""
