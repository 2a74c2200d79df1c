"""Checks that find damage in a journal, without running a module."""
