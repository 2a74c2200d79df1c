"""Effects that any workflow can use: ``--executors aos.executors.evm:evm``.

Some of the packages in here need extras of the distribution, so nothing imports them; a worker
loads them by name.
"""
