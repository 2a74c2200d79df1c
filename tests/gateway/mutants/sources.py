"""The mutants of the gateway: each is the module with one mistake that such engines make.

``build`` compiles them. ``RECORD`` holds what they were built from, so that no compiler is needed
to use them, and so that a mutant of older sources is noticed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[2]
GATEWAY: Final = ROOT / "modules" / "gateway"
RECORD: Final = HERE / "BUILD.json"


class StalePatch(Exception):
    """The text that a patch replaces is not in the sources, or not as often as expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """``text`` in ``file`` (below ``modules/gateway/src``) is replaced by ``mistake``, ``times``
    times."""

    name: str
    file: str
    text: str
    mistake: str
    times: int = 1

    @property
    def wasm(self) -> Path:
        return HERE / f"{self.name}.wasm"

    def applied(self, source: str) -> str:
        """The file with the mistake.

        Raises:
            StalePatch: The sources have changed since the patch was written.
        """
        found = source.count(self.text)
        if found != self.times:
            raise StalePatch(
                f"{self.name}: expected the replaced text {self.times} times in "
                f"modules/gateway/src/{self.file}, found it {found} times: write the patch in "
                f"tests/gateway/mutants/sources.py for the new sources"
            )
        return source.replace(self.text, self.mistake)


NEW_NONCE: Final = """\
        if let Some(current) = &mut self.lane.current {
            current.nonce = current.nonce.map(|nonce| nonce + 1);
        }
        match self.last_fees() {
            Some(fees) => self.attempt(fees, false),
            None => self.retry_absent(&code, &message),
        }
"""
SETTLED: Final = """\
        if fate == AttemptFate::Refused {
            let kind = crate::evm::CauseKind::Empty;
            let cause = crate::evm::Cause { kind, text: message.into(), data: Vec::new() };
            return self.settle(TxOutcome::WouldRevert { cause, at_depth: true });
        }
        if self.lane.is_parking {
            self.park("by command");
            return;
        }
        self.await_fate();
"""
ANOTHER_NONCE: Final = """\
        if let Some(current) = &mut self.lane.current {
            current.nonce = current.nonce.map(|nonce| nonce + 1);
        }
        self.attempt(fees, is_canceling);
        true
"""
UNCHECKED: Final = """\
                self.record.step = self.record.step.awaiting();
                self.note(&format!("landed in block {block}"));
                self.done(Some(hash));
"""

MUTANTS: Final = (
    Mutant(
        name="new_nonce_after_not_found",
        file="flight.rs",
        text="        self.retry_absent(&code, &message);\n",
        mistake=NEW_NONCE,
    ),
    Mutant(
        name="settles_on_refused",
        file="flight.rs",
        text="""\
        if self.lane.is_parking {
            self.park("by command");
            return;
        }
        self.await_fate();
""",
        mistake=SETTLED,
    ),
    Mutant(
        name="reads_at_the_tip",
        file="flight.rs",
        text="            conf: request.policy.conf,\n",
        mistake="            conf: 1,\n",
        times=2,
    ),
    Mutant(
        name="bumps_at_another_nonce",
        file="flight.rs",
        text="        self.attempt(fees, is_canceling);\n        true\n",
        mistake=ANOTHER_NONCE,
    ),
    Mutant(
        name="forgets_a_hash",
        file="flight.rs",
        text="        current.attempts.push(Attempt {",
        mistake="        current.attempts.clear();\n        current.attempts.push(Attempt {",
    ),
    Mutant(
        name="does_not_check_the_landed_block",
        file="transaction.rs",
        text="""\
                self.record.step = self.record.step.awaiting();
                self.record.doing = Doing::Verifying { hash, block };
                self.call(Question::Done, BlockAt::Number(block));
""",
        mistake=UNCHECKED,
    ),
)


def sources() -> Iterator[tuple[str, str]]:
    """The files of the gateway's crate, by their names below ``src``, and their text."""
    for file in sorted((GATEWAY / "src").glob("*.rs")):
        yield file.name, file.read_text("utf-8")


def digest_of(mutant: Mutant) -> str:
    """The SHA-256 of the crate's sources with the mistake."""
    digest = hashlib.sha256()
    for name, text in sources():
        patched = mutant.applied(text) if name == mutant.file else text
        digest.update(f"{name}\n{hashlib.sha256(patched.encode()).hexdigest()}\n".encode())
    return digest.hexdigest()


def facts_of(mutant: Mutant, wasm: bytes) -> dict[str, str]:
    """The entry of a mutant in the record."""
    return {
        "file": mutant.file,
        "text": mutant.text,
        "mistake": mutant.mistake,
        "sources": digest_of(mutant),
        "sha256": hashlib.sha256(wasm).hexdigest(),
    }


def recorded() -> dict[str, Any]:
    return dict(json.loads(RECORD.read_text("utf-8")))
