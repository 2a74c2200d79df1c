"""Follows a journal as it would have been under another manifest (spec/shadow.md)."""
