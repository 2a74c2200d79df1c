"""Uploads to Arweave: ``--executors arweave`` (spec/arweave.md).

An upload's bytes and ids are a function of its params, its secret and its content, so that it may
be repeated after any crash. Needs the extra ``gateway`` of the distribution (AW-2).
"""

from __future__ import annotations

from aos.errors import BadUsage

try:
    from aos_gateway.arweave.arweave_effects import arweave
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "Crypto":
        raise
    raise BadUsage(
        "the executors of Arweave need the package pycryptodome, which is not installed: "
        "pip install 'aos-kernel[gateway]'"
    ) from error

__all__ = ["arweave"]
