"""The gateway's part in Python: the effects of chains and of Arweave, for any workflow.

An extension of ``aos`` (spec/extending.md): the kernel and the command line import nothing of it.
"""
