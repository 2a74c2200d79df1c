"""Check what a proposer or approver gives: patches, votes and notes (spec/cli.md, C-140, C-147)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aos.errors import BadUsage
from aos.host.apply.vote_file import VoteFile, read_vote_file
from aos.host.checkpoints.named_files import read_named
from aos.manifest.patch import Patch, read_patch
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

PATCH_BYTES_MAX: Final = 16 << 20
VOTE_BYTES_MAX: Final = 16 << 20
"""A vote names the workflows that the manifest leaves, of which there may be many."""


def patch_at(file: Path) -> Patch:
    """Read a patch.

    Raises:
        BadUsage: The file cannot be read, or is not JSON.
        PatchInvalid: It is no patch.
    """
    return read_patch(_json(file, PATCH_BYTES_MAX))


def check_note(text: str | None) -> None:
    """Check the note of a proposal or vote. Raises: BadUsage: It is no text."""
    try:
        (text or "").encode()
    except UnicodeEncodeError as problem:
        raise BadUsage(f"--note: expected UTF-8 text, found {text!r:.80}") from problem


def vote_at(file: Path) -> VoteFile:
    """Read a vote. Raises: BadUsage: The file cannot be read, or is no vote."""
    value = _json(file, VOTE_BYTES_MAX)
    try:
        return read_vote_file(value)
    except BadUsage as problem:
        raise BadUsage(f"{file}: {problem}") from problem


def _json(file: Path, bytes_max: int) -> object:
    try:
        return parse_json(read_named(file, bytes_max).decode(), max_bytes=bytes_max)
    except UnicodeDecodeError as problem:
        raise BadUsage(f"{file}: expected JSON in UTF-8") from problem
    except ValueProblem as problem:
        raise BadUsage(f"{file}: {problem}") from problem
