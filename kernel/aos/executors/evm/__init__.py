"""Transactions and views of EVM chains, as effects: ``--executors aos.executors.evm:evm``.

Specified in ``spec/evm.md``. It needs the packages of ``aos-kernel[evm]``.
"""

from __future__ import annotations

from aos.executors.evm.evm_effects import evm

__all__ = ["evm"]
