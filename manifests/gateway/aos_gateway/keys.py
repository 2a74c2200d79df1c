"""The keys of works, scores, epochs and lanes, and the names that each kind has in the manifest.

A key names one cell, so each has one spelling: numbers without leading zeros, hex in lower case.

    work   31337/0xSTUDIO/0xDATAHASH
    score  31337/0xSTUDIO/0xDATAHASH/0xWORKER/0xVALIDATOR
    epoch  31337/0xSTUDIO/7
    lane   31337/0xADDRESS
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.core.journal.records import CellId
from aos.errors import BadUsage, excerpt
from aos.values.cbor import INTEGER_MAX, encode
from aos_gateway.keccak import keccak_256


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of cell: its workflow, the event that creates one, the event of a command, and the
    field with the key in both. ``owner`` is its arm in the requests that a lane gets, ``form`` its
    key as text."""

    name: str
    workflow: str
    created_by: str
    commanded_by: str
    field: str
    owner: str | None
    form: str


WORK: Final = Kind(
    name="work",
    workflow="gw/work@1",
    created_by="gw/WorkRequested@1",
    commanded_by="gw/WorkCommand@1",
    field="work",
    owner="Work",
    form="CHAIN/0xSTUDIO/0xDATAHASH",
)
SCORE: Final = Kind(
    name="score",
    workflow="gw/score@1",
    created_by="gw/ScoreRequested@1",
    commanded_by="gw/ScoreCommand@1",
    field="score",
    owner="Score",
    form="CHAIN/0xSTUDIO/0xDATAHASH/0xWORKER/0xVALIDATOR",
)
EPOCH: Final = Kind(
    name="epoch",
    workflow="gw/epoch@1",
    created_by="gw/EpochCloseRequested@1",
    commanded_by="gw/EpochCommand@1",
    field="epoch_key",
    owner="Epoch",
    form="CHAIN/0xSTUDIO/NUMBER",
)
LANE: Final = Kind(
    name="lane",
    workflow="gw/signer@1",
    created_by="gw/TxRequested@1",
    commanded_by="gw/LaneCommand@1",
    field="lane",
    owner=None,
    form="CHAIN/0xADDRESS",
)
KINDS: Final = (WORK, SCORE, EPOCH, LANE)
RECORD_KINDS: Final = (WORK, SCORE, EPOCH)
KIND_NAMES: Final = tuple(kind.name for kind in KINDS)
_BY_OWNER: Final = {kind.owner: kind for kind in RECORD_KINDS}

_CHAIN: Final = r"[1-9][0-9]{0,19}"
_ADDRESS: Final = r"0x[0-9a-f]{40}"
_HASH: Final = r"0x[0-9a-f]{64}"
_LANE_PARTS: Final = re.compile(f"(?P<chain>{_CHAIN})/(?P<signer>{_ADDRESS})")
_FORMS: Final = {
    WORK.name: re.compile(f"{_CHAIN}/{_ADDRESS}/{_HASH}"),
    SCORE.name: re.compile(f"{_CHAIN}/{_ADDRESS}/{_HASH}/{_ADDRESS}/{_ADDRESS}"),
    EPOCH.name: re.compile(rf"{_CHAIN}/{_ADDRESS}/(?:0|{_CHAIN})"),
    LANE.name: _LANE_PARTS,
}


@dataclass(frozen=True, slots=True)
class Key:
    """The key of one cell."""

    kind: Kind
    text: str

    @property
    def cell(self) -> CellId:
        return self.kind.workflow, encode(self.text)

    @property
    def words(self) -> str:
        """The key with its kind, for a sentence."""
        return f"{self.kind.name} {self.text}"

    @property
    def id(self) -> str:
        """The id of the record: a UUID of version 8, of the key's keccak-256."""
        uuid_bytes = bytearray(keccak_256(self.text.encode())[:16])
        uuid_bytes[6] = uuid_bytes[6] & 0x0F | 0x80
        uuid_bytes[8] = uuid_bytes[8] & 0x3F | 0x80
        digits = uuid_bytes.hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def work_key(chain: int, studio: str, data_hash: str) -> Key:
    return Key(WORK, f"{chain}/{studio}/{data_hash}")


def score_key(work: Key, worker: str, validator: str) -> Key:
    return Key(SCORE, f"{work.text}/{worker}/{validator}")


def epoch_key(chain: int, studio: str, epoch: int) -> Key:
    return Key(EPOCH, f"{chain}/{studio}/{epoch}")


def lane_key(chain: int, signer: str) -> Key:
    return Key(LANE, f"{chain}/{signer}")


def parts_of_lane(key: Key) -> tuple[int, str]:
    """The chain and the signer of a lane. A cell with another key than a lane's has neither."""
    match = _LANE_PARTS.fullmatch(key.text)
    return (int(match["chain"]), match["signer"]) if match else (0, "")


def owner_key(owner: Mapping[str, Any]) -> Key:
    """The record that asked a lane for a transaction: a ``gw/Owner@1``."""
    return Key(_BY_OWNER[owner["$tag"]], owner["$value"])


def read_key(text: str) -> Key:
    """The key that a user typed, in any case of its letters.

    Raises:
        BadUsage: It has none of the four forms.
    """
    lower = text.strip().lower()
    for kind in KINDS:
        if _FORMS[kind.name].fullmatch(lower) and _fits(lower):
            return Key(kind, lower)
    forms = ", ".join(f"{kind.form} ({kind.name})" for kind in KINDS)
    raise BadUsage(
        "not the key of a record or a lane",
        expected=f"one of {forms}",
        actual=repr(excerpt(text, characters_max=240)),
        hint="aos gateway list prints them",
    )


def read_work_key(text: str, option: str) -> Key:
    """As ``read_key``, of a work alone."""
    key = read_key(text)
    if key.kind is not WORK:
        actual = f"that of {'an' if key.kind is EPOCH else 'a'} {key.kind.name}"
        raise BadUsage("not the key of a work", location=option, expected=WORK.form, actual=actual)
    return key


def _fits(text: str) -> bool:
    """Whether the numbers of a key, which the patterns only count the digits of, are a ``nat``."""
    return all(int(part) <= INTEGER_MAX for part in text.split("/") if part.isdecimal())
