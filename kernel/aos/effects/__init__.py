"""Effects that ship with AOS: this machine, models, trees of files, secrets, and other worlds.

A worker loads their ``Executors`` by name: ``--executors llm``.
"""
