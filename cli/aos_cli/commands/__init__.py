"""The commands, one file each, named after its command: ``aos send`` is ``send.py``."""
