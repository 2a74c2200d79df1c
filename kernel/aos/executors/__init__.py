"""Effects of the gateway: ``--executors aos.executors.evm:evm``.

They need an extra of the distribution, so nothing imports them; a worker loads them by name.
"""
