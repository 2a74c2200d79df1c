"""Secrets that workflows put: ``--executors aos.executors.vault:vault`` (spec/agentos.md, AG-80).

The effects ``sys/vault.*`` write the file of ``--secrets``, which ``AOS_VAULT_FILE`` names.
"""

from __future__ import annotations

from aos.executors.vault.effects import vault

__all__ = ["vault"]
