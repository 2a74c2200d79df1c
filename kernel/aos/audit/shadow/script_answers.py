"""Answers that a user gives to effects that the journal does not answer (spec/shadow.md, SH-25).

Each line of the file is a JSON object:

    {"effect": "shop/card.charge@1", "params": {"order_id": "o-1"}, "status": "ok", "payload": {…}}

``params`` is a pattern: only the fields that it names must be the same. The first line that matches
answers, as often as it matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from aos.core.journal.vocabulary import ReceiptStatus, word_of
from aos.core.state.continuation import payload_schemas
from aos.errors import BadUsage, sentence
from aos.manifest.builtins import KERNEL_EFFECTS, TIMER
from aos.manifest.effective import Effect, Effective
from aos.values.digests import Hash, content_hash
from aos.values.errors import ValueProblem, quoted
from aos.values.json_text import parse_json

ANSWERS_BYTES_MAX: Final = 16 << 20
"""Largest file of answers, in bytes."""

_STATUSES: Final[tuple[ReceiptStatus, ...]] = get_args(ReceiptStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnswer:
    """An answer to the intents of ``effect`` whose params match ``params`` (None: all).
    ``payload`` is its canonical CBOR."""

    effect: str
    params: object
    status: ReceiptStatus
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnswers:
    """All answers of a file, and the content hash of its bytes."""

    answers: tuple[ScriptAnswer, ...]
    hash: Hash

    def find(self, effect: Effect, params: bytes) -> ScriptAnswer | None:
        """Return the first answer to an intent with these params, in canonical CBOR."""
        answers = [answer for answer in self.answers if answer.effect == effect.name]
        if not answers:
            return None
        params_json = effect.params.to_json(effect.params.from_record(params))
        return next(
            (
                answer
                for answer in answers
                if answer.params is None or _is_like(answer.params, params_json)
            ),
            None,
        )


def read_script_answers(data: bytes, manifest: Effective) -> ScriptAnswers:
    """Read a file of answers to effects of ``manifest``.

    Raises:
        BadUsage: It is too large, or a line is no answer; the message names the line.
    """
    if len(data) > ANSWERS_BYTES_MAX:
        raise BadUsage(
            sentence("--answers: the file is too large", expected=f"{ANSWERS_BYTES_MAX} bytes",
                     actual=str(len(data)))
        )  # fmt: skip
    answers = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            answers.append(_answer(parse_json(line.decode(), max_bytes=len(line)), manifest))
        except (ValueProblem, UnicodeDecodeError) as problem:
            raise BadUsage(f"--answers: line {number}: {problem}") from problem
    return ScriptAnswers(answers=tuple(answers), hash=content_hash(data))


def _answer(value: object, manifest: Effective) -> ScriptAnswer:
    match value:
        case {"effect": str(name), "status": str(word), "payload": payload, **rest} if (
            rest.keys() <= {"params"}
        ):
            effect = manifest.effects.get(name)
            if effect is None or name in KERNEL_EFFECTS or name == TIMER:
                raise ValueProblem(
                    f"{quoted(name)} is no effect of this manifest that executors answer",
                    path="$.effect",
                )
            status = word_of(_STATUSES, word)
            if status is None:
                raise ValueProblem(
                    f"expected {' or '.join(_STATUSES)}, found {quoted(word)}", path="$.status"
                )
            return ScriptAnswer(
                effect=name,
                params=rest.get("params"),
                status=status,
                payload=_payload(effect, status, payload),
            )
    raise ValueProblem(
        'expected {"effect": NAME, "params": PATTERN, "status": STATUS, "payload": VALUE}; params '
        "may be left out"
    )


def _payload(effect: Effect, status: ReceiptStatus, value: object) -> bytes:
    problems = []
    for schema in payload_schemas(effect, status):
        try:
            return schema.encode(schema.from_json_object(value))
        except ValueProblem as problem:
            problems.append(f"{schema.name}: {problem}")
    raise ValueProblem("; ".join(problems), path="$.payload")


def _is_like(pattern: object, value: object) -> bool:
    """Whether ``value`` has everything that ``pattern`` has; objects may have more fields."""
    if isinstance(pattern, dict) and isinstance(value, dict):
        return all(
            name in value and _is_like(subpattern, value[name])
            for name, subpattern in pattern.items()
        )
    if isinstance(pattern, list) and isinstance(value, list):
        return len(pattern) == len(value) and all(map(_is_like, pattern, value))
    return type(pattern) is type(value) and pattern == value
