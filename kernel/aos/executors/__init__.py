"""Effects for services outside, which any workflow can use: ``--executors aos.executors.evm:evm``.

The packages in here need extras of the distribution, so nothing imports them; a worker loads them
by name.
"""
