"""Secrets that workflows put: ``--executors vault`` (spec/agentos.md, AG-80).

The effects ``sys/vault.*`` write the file of ``--secrets``, which ``AOS_VAULT_FILE`` names.
"""

from __future__ import annotations

from aos.effects.vault.effects import vault

__all__ = ["vault"]
