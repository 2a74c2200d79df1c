"""The commands, one file each, named after what is typed: ``aos send`` is ``send.py``."""
