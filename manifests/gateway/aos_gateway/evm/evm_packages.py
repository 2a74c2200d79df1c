"""The packages of ``aos-kernel[gateway]``, imported here alone (EV-70).

``eth_keys`` is the part of eth-account that signs. ``import eth_account`` would take a second of
every start, and one of its packages raises the recursion limit of the process beyond the stack.
"""

from __future__ import annotations

from aos.errors import BadUsage

try:
    from eth_hash.auto import keccak
    from eth_keys.datatypes import PrivateKey
except ImportError as error:
    raise BadUsage(
        f"it needs packages that are not installed ({error.name} is missing): run "
        "pip install 'aos-kernel[gateway]'"
    ) from error


__all__ = ["PrivateKey", "keccak"]
