"""Descriptions: any class or entry as one English sentence, each clause with its file position."""
