"""The bytes of a frame's header, which are a leaf of the header log (J-24, PF-2)."""

from __future__ import annotations

from aos.core.journal.frame import VERSION, Header
from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem


def header_bytes(header: Header) -> bytes:
    """The canonical bytes of a header."""
    return encode(header.value())


def read_header(data: bytes) -> Header:
    """Read a header.

    Raises:
        Damage: The bytes are not those of a header.
    """
    try:
        value = decode_record(data, max_bytes=65_535)
    except ValueProblem as problem:
        raise Damage(f"a header is not canonical CBOR: {problem}") from problem
    match value:
        case {
            "version": version, "world": bytes(world), "first": first, "last": last,
            "prev": bytes(prev), "root": bytes(root), "log_root": bytes(log_root), **more,
        } if (
            not more
            and _is_nat(version)
            and version == VERSION
            and _is_nat(first)
            and _is_nat(last)
            and all(len(digest) == HASH_BYTES for digest in (world, prev, root, log_root))
        ):  # fmt: skip
            assert isinstance(first, int)
            assert isinstance(last, int)
            if 1 <= first <= last:
                return Header(
                    world=Hash(world), first=first, last=last, prev=Hash(prev), root=Hash(root),
                    log_root=Hash(log_root),
                )  # fmt: skip
    raise Damage("a header is not {version, world, first, last, prev, root, log_root}")


def _is_nat(value: Value) -> bool:
    # True is an integer to Python.
    return type(value) is int and value >= 0
