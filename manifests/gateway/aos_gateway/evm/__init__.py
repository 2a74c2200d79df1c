"""Transactions and views of EVM chains, as effects: ``--executors evm``.

Specified in ``spec/evm.md``. It needs the packages of ``aos-kernel[gateway]``.
"""

from __future__ import annotations

from aos_gateway.evm.evm_effects import evm

__all__ = ["evm"]
