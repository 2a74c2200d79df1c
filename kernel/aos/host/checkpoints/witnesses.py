"""Ask witnesses to cosign a checkpoint (spec/proofs.md, PF-84 to PF-87)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aos.errors import BadUsage, Damage, Unavailable, excerpt
from aos.host.checkpoints.posting import NamedServer, Posted
from aos.prove.headerlog.checkpoint import Checkpoint
from aos.prove.headerlog.header_tree import consistency
from aos.prove.headerlog.signed_note import (
    COSIGNATURE,
    Note,
    NoteKey,
    NoteSignature,
    parse_note_key,
    parse_signature,
)
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.headerlog.witness_protocol import (
    ADD_CHECKPOINT,
    CONFLICT,
    NOT_CONSISTENT,
    OK,
    SIZE_TYPE,
    format_request,
    parse_size,
)

_TRIES: Final = 3
_URL_AND_KEY: Final = re.compile(r"(?P<url>.*)=(?P<key>[^=+]+\+.+)")


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness: where it answers, and the key that it signs with."""

    server: NamedServer
    key: NoteKey

    @classmethod
    def of(cls, text: str) -> Witness:
        """Read ``URL=VKEY``.

        Raises:
            BadUsage: It has another form, or the key is no witness's.
        """
        # The address may have = in a query, the key at the end of its base64, but not in its name.
        match = _URL_AND_KEY.fullmatch(text)
        url = text if match is None else match["url"]
        if match is None or not url.startswith(("http://", "https://")):
            raise BadUsage(
                f"--witness {NamedServer.at(url, '--witness').redacted_url!r}: expected "
                "URL=VKEY, such as https://witness.example=NAME+HASH+KEY"
            )
        return cls(NamedServer.at(url.rstrip("/"), "--witness"), witness_key(match["key"]))


def witness_key(text: str) -> NoteKey:
    """Read the verifier key of a witness.

    Raises:
        BadUsage: It is none.
    """
    key = parse_note_key(text)
    if key.kind != COSIGNATURE:
        raise BadUsage(
            "this key signs notes as a log does, not as a witness does",
            location=excerpt(text),
            expected="a key of type 4, as aos key show prints it",
            actual=f"type {key.kind}",
        )
    return key


def ask(
    witness: Witness, note: Note, checkpoint: Checkpoint, log: TiledLog, old: int
) -> NoteSignature:
    """Ask one witness to cosign. ``old`` is the size that it cosigned last, as far as we know; if
    it says another, it is asked again.

    Raises:
        Damage: It cosigned a larger log: this journal was rolled back. Or it cosigned another root
            of this size, or frames that this log does not continue: this journal was rewritten.
        Unavailable: It does not answer, does not cosign, or answers with something else.
    """
    for _ in range(_TRIES):
        path = consistency(old, checkpoint.size, log.node)
        answer = witness.server.post(
            format_request(old, path, note.full_text), kind="text/plain", path=f"/{ADD_CHECKPOINT}"
        )
        if answer.status == OK:
            return _cosignature(witness, note, answer)
        latest = _latest(answer)
        if latest is None:
            raise _no(witness, answer, checkpoint, old)
        if latest > checkpoint.size:
            raise Damage(
                "the journal was rolled back: a witness has cosigned more of it",
                location=witness.server.redacted_url,
                expected=f"at least {latest} frames",
                actual=f"{checkpoint.size}",
                hint="restore the newer journal; the checkpoint was not stored",
            )
        if latest == old:
            break
        old = latest
    raise Unavailable(
        f"{witness.server.redacted_url}: the witness refuses the size that it names itself "
        "(ask its operator)"
    )


def _cosignature(witness: Witness, note: Note, answer: Posted) -> NoteSignature:
    try:
        lines = answer.body.decode().removesuffix("\n").split("\n")
        signatures = [
            signature for signature in map(parse_signature, lines) if witness.key.is_of(signature)
        ]
        if len(signatures) == 1 and Note(note.text, (signatures[0],)).is_signed_by(witness.key):
            return signatures[0]
    except (UnicodeDecodeError, Damage):
        pass
    raise Unavailable(
        "the witness answered with something else than its cosignature",
        location=witness.server.redacted_url,
        expected=f"one line, signed by {witness.key.text}",
        hint="check the key that --witness names",
    )


def _latest(answer: Posted) -> int | None:
    is_size = answer.kind.partition(";")[0].strip() == SIZE_TYPE
    return parse_size(answer.body) if answer.status == CONFLICT and is_size else None


def _no(witness: Witness, answer: Posted, checkpoint: Checkpoint, old: int) -> Damage | Unavailable:
    """What a refusal without a size shows. A witness compares the path only if ``old`` is the size
    that it cosigned last (PF-81), so a path that does not hold proves another history."""
    if answer.status == CONFLICT:
        return Damage(
            "the journal was rewritten: the witness cosigned another root of this size",
            location=witness.server.redacted_url,
            expected=f"the root that it cosigned for {checkpoint.size} frames",
            actual="another",
            hint="the checkpoint was not stored",
        )
    if answer.status == NOT_CONSISTENT and old:
        return Damage(
            "the journal was rewritten: it does not continue the frames that the witness cosigned",
            location=witness.server.redacted_url,
            expected=f"a journal that begins with the {old} frames that it cosigned",
            actual=f"{checkpoint.size} frames, of which the first {old} are others",
            hint="the checkpoint was not stored",
        )
    return Unavailable(
        f"{witness.server.redacted_url}: the witness did not cosign: it answered {answer.status}: "
        f"{witness.server.line(answer.body)!r}"
    )
