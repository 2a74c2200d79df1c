"""The events that create records, with the evidence of a work, and how an existing record differs
from one of them.

A record never changes its input, so a second create with the same input has no effect, and one with
another input is refused.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.errors import BadUsage, excerpt
from aos.values.cbor import INTEGER_MAX, encode
from aos.values.digests import content_hash, hash_text
from aos_gateway.keys import EPOCH, SCORE, WORK, Key, epoch_key, score_key, work_key
from aos_gateway.policy import FIELDS

SCORES_MAX: Final = 32
SCORE_MAX: Final = 65_535
MODES: Final = {"direct": "Direct", "commit-reveal": "CommitReveal"}

EVIDENCE_BYTES_MAX: Final = 524_288
DEFAULT_TYPE: Final = "application/octet-stream"
TYPE_CHARACTERS_MAX: Final = 128

OPTIONS: Final[Mapping[str, str]] = {
    "signer_address": "--signer",
    "epoch": "--epoch",
    "arweave": "--arweave",
    "content_type": "--content-type",
    "evidence_bytes": "--evidence",
    "evidence": "--evidence",
    "scores": "--scores",
    "mode": "--mode",
    "admin_address": "--admin",
    **{f"policy.{name}": field.option for name, field in FIELDS.items()},
}
"""The option that sets each field of an input, for those that the key does not fix."""

# A table of our own: the machine's table would give one file two types on two machines, and the
# second `create-work` would then be refused.
TYPES: Final = {
    ".cbor": "application/cbor",
    ".csv": "text/csv",
    ".gif": "image/gif",
    ".gz": "application/gzip",
    ".htm": "text/html",
    ".html": "text/html",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".mp4": "video/mp4",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".tar": "application/x-tar",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
    ".webp": "image/webp",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".zip": "application/zip",
}
_PART: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_MEDIA_TYPE: Final = re.compile(rf"{_PART}/{_PART}(?:; ?{_PART}=(?:{_PART}|\"[^\"\\]*\"))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The event that creates the record ``key``. ``value`` is in the normal form of its schema."""

    key: Key
    value: Mapping[str, Any]

    @property
    def input(self) -> dict[str, Any]:
        """Its fields as the record keeps them."""
        return input_of(self.key, self.value)

    @property
    def data(self) -> bytes:
        """Its canonical bytes."""
        value: Any = self.value
        return encode(value)

    @property
    def submission_id(self) -> str:
        """So that of two creates at the same time the kernel accepts one (K-12)."""
        return f"gateway/{self.key.text}"


def work_request(
    *,
    chain: int,
    studio: str,
    epoch: int,
    signer: str,
    data_hash: str | None,
    arweave: str,
    content_type: str,
    evidence: bytes,
    policy: Mapping[str, int],
) -> Request:
    """Addresses and hashes are in lower case. Without ``data_hash``: the BLAKE3 of the evidence."""
    data_hash = data_hash or f"0x{content_hash(evidence).hex()}"
    key = work_key(chain, studio, data_hash)
    return Request(
        key=key,
        value={
            WORK.field: key.text,
            "chain": chain,
            "studio_address": studio,
            "epoch": epoch,
            "signer_address": signer,
            "data_hash": data_hash,
            "arweave": arweave,
            "content_type": content_type,
            "evidence": evidence,
            "policy": dict(policy),
        },
    )


def score_request(
    *,
    work: Key,
    of_work: Mapping[str, Any],
    validator: str,
    admin: str | None,
    scores: Sequence[int],
    mode: str,
    policy: Mapping[str, int],
) -> Request:
    """``of_work`` is the input of the work, whose signer is the worker. Without ``admin``, the
    validator registers itself."""
    worker = of_work["signer_address"]
    key = score_key(work, worker, validator)
    return Request(
        key=key,
        value={
            SCORE.field: key.text,
            **{name: of_work[name] for name in ("chain", "studio_address", "data_hash", "epoch")},
            "worker_address": worker,
            "signer_address": validator,
            "admin_address": admin or validator,
            "scores": list(scores),
            "mode": {"$tag": MODES[mode]},
            "policy": dict(policy),
        },
    )


def epoch_request(
    *, chain: int, studio: str, epoch: int, signer: str, policy: Mapping[str, int]
) -> Request:
    key = epoch_key(chain, studio, epoch)
    return Request(
        key=key,
        value={
            EPOCH.field: key.text,
            "chain": chain,
            "studio_address": studio,
            "epoch": epoch,
            "signer_address": signer,
            "policy": dict(policy),
        },
    )


def input_of(key: Key, value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event that creates ``key``, as ``input_of_record`` returns them."""
    fields = {name: field_value for name, field_value in value.items() if name != key.kind.field}
    policy = fields.pop("policy")
    if "evidence" in fields:
        evidence = fields["evidence"]
        fields["evidence_bytes"] = len(evidence)
        fields["evidence"] = hash_text(content_hash(evidence))
    return fields | {f"policy.{name}": setting for name, setting in policy.items()}


def input_of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The input that a record was created with: the fields that it has, ``policy.NAME``, and the
    hash of its evidence as ``evidence``, if the record has stored it."""
    fields = {
        name: field_value
        for name, field_value in record["input"].items()
        if field_value is not None
    }
    evidence = record["progress"]["evidence"]
    if evidence is None and record.get("evidence") is not None:
        evidence = hash_text(content_hash(record["evidence"]))
    if evidence is not None:
        fields["evidence"] = evidence
    return fields | {f"policy.{name}": setting for name, setting in record["policy"].items()}


def differences(record: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[str]:
    """Each field in which a request differs from the input of the record, as a clause. A field that
    the record does not have is not compared."""
    for name, expected in record.items():
        actual = request.get(name)
        if name in request and actual != expected and not _is_told_by_hash(name, record, request):
            option = OPTIONS.get(name, name)
            yield f"{option}: the record has {_value_text(expected)}, found {_value_text(actual)}"


def _is_told_by_hash(name: str, record: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Other evidence is one difference, not two: its hash says it, and its size adds nothing."""
    return (
        name == "evidence_bytes"
        and "evidence" in record
        and record["evidence"] != request.get("evidence")
    )


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value["$tag"])
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def read_scores(text: str) -> list[int]:
    """``80,90``. Raises BadUsage."""
    expected = f"1 to {SCORES_MAX} numbers from 0 to {SCORE_MAX:,}, such as 80,90"
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) <= 5 and int(word) <= SCORE_MAX):
            raise BadUsage("--scores", expected=expected, actual=repr(word[:40]))
    if len(words) > SCORES_MAX:
        raise BadUsage("--scores", expected=expected, actual=f"{len(words)} numbers")
    return [int(word) for word in words]


def read_evidence(file: Path) -> bytes:
    """The bytes of the evidence of a work, a small file.

    Raises:
        BadUsage: There is no plain file, or it is empty or too large.
    """
    expected = f"a file of 1 to {EVIDENCE_BYTES_MAX:,} bytes"
    try:
        # A pipe or a device could block, or have no end.
        if not stat.S_ISREG(file.stat().st_mode):
            raise BadUsage(f"--evidence {file}", expected=expected, actual="no plain file")
        with file.open("rb") as stream:
            data = stream.read(EVIDENCE_BYTES_MAX + 1)
            size = max(len(data), file.stat().st_size)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadUsage(
            f"--evidence {file}: the evidence cannot be read: {reason}", hint=expected
        ) from error
    if not 1 <= len(data) <= EVIDENCE_BYTES_MAX:
        raise BadUsage(f"--evidence {file}", expected=expected, actual=f"{size:,} bytes")
    return data


def content_type(media_type: str | None, file: Path) -> str:
    """The media type that is given, or the one of the file's name.

    Raises:
        BadUsage: The given one is no media type.
    """
    if media_type is None:
        return TYPES.get(file.suffix.lower(), DEFAULT_TYPE)
    if not _MEDIA_TYPE.fullmatch(media_type) or len(media_type) > TYPE_CHARACTERS_MAX:
        raise BadUsage(
            "--content-type",
            expected="a media type such as application/json",
            actual=repr(excerpt(media_type)),
        )
    return media_type


def check_nat(number: int, option: str, *, least: int = 0) -> int:
    """Return the number. Raises BadUsage if it is no ``nat``, or is below ``least``."""
    if not least <= number <= INTEGER_MAX:
        raise BadUsage(option, expected=f"{least} to {INTEGER_MAX}", actual=str(number))
    return number
