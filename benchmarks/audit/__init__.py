"""Measure the programs that read a journal for auditors."""
