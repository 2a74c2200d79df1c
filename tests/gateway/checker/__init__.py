"""A referee of the gateway: it believes only the blocks of a chain and an exported journal.

It imports nothing of ``aos``. ``journal`` reads a bundle, ``history`` finds in it the steps of the
gateway, ``blocks`` reads the chain. ``record_laws``, ``lane_laws`` and ``chain_laws`` compare.

    python -m tests.gateway.checker world.aos --rpc http://127.0.0.1:8545
"""

from tests.gateway.checker.check import Declared, check
from tests.gateway.checker.findings import Finding

__all__ = ["Declared", "Finding", "check"]
