"""The documents of ``aos inspect``."""
