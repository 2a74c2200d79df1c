"""An executor that has no node for the chain."""

from __future__ import annotations

from typing import Any

from aos.worker import EffectContext, Executors, NotConfigured, effect


@effect("evm/call@1")
def call(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    message = f"AOS_EVM_RPC has no node for chain {params['chain']}"
    raise NotConfigured("chain_not_configured", message, "set AOS_EVM_RPC")


evm = Executors("evm", [call])
