"""A guest of each SDK that answers the same questions about documents and dates."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from aos.values.cbor import decode_record, encode
from tests.memory_world import schema
from tests.modules.guests import MODULES
from tests.sdk.assemblyscript.asc import Guest, compile_wasm, fast

WASM: Final = MODULES / "sdk-rust/tests/vectors/vectors.wasm"
NODES: Final = [schema("t/Event@1", {"record": {}})]


class DocumentGuest(Protocol):
    """The questions that both guests answer."""

    def rewrite(self, document: bytes) -> tuple[bool, str]:
        """(True, the document written again), or (False, why it is refused)."""
        ...

    def number(self, text: str) -> list[str]:
        """A JSON number as a nat, an int and a decimal; "" for what it does not fit."""
        ...

    def day(self, days: int, months: int) -> list[str]:
        """Date, weekday and number of a day, and the date so many months later; or nothing."""
        ...

    def move(self, time_ns: int, months: int) -> int | None:
        """The time so many months later, if it fits."""
        ...

    def close(self) -> None: ...


class RustGuest:
    """`modules/sdk-rust/tests/vectors`."""

    def __init__(self) -> None:
        self.guest = Guest(WASM.read_bytes())

    def _ask(self, arm: str, value: Any) -> tuple[str, Any]:
        answer: Any = answer_of(self.guest, "ask", encode({"$tag": arm, "$value": value}))
        return answer["$tag"], answer["$value"]

    def rewrite(self, document: bytes) -> tuple[bool, str]:
        arm, answer = self._ask("Json", document)
        return arm == "Bytes", answer.decode() if arm == "Bytes" else answer

    def number(self, text: str) -> list[str]:
        found: list[str] = self._ask("Number", text.encode())[1]
        return found

    def day(self, days: int, months: int) -> list[str]:
        found: list[str] = self._ask("Day", {"days": days, "months": months})[1]
        return found

    def move(self, time_ns: int, months: int) -> int | None:
        found: list[str] = self._ask("Move", {"time_ns": time_ns, "months": months})[1]
        return int(found[0]) if found else None

    def close(self) -> None:
        self.guest.close()


class AssemblyScriptGuest:
    """`guest.ts`, compiled for this run."""

    def __init__(self, folder: Path) -> None:
        source = (Path(__file__).parent / "guest.ts").read_text("utf-8")
        self.guest = Guest(compile_wasm(folder, NODES, source, options=fast())[0])

    def ask(self, entrypoint: str, data: bytes = b"") -> Any:
        return answer_of(self.guest, entrypoint, data)

    def rewrite(self, document: bytes) -> tuple[bool, str]:
        is_read, answer = self.ask("rewrite", document)
        return bool(is_read), answer.decode() if is_read else answer

    def number(self, text: str) -> list[str]:
        found: list[str] = self.ask("number", text.encode())
        return found

    def day(self, days: int, months: int) -> list[str]:
        found: list[str] = self.ask("day", encode([days, months]))
        return found

    def move(self, time_ns: int, months: int) -> int | None:
        found: list[int] = self.ask("move", encode([time_ns, months]))
        return found[0] if found else None

    def close(self) -> None:
        self.guest.close()


def answer_of(guest: Guest, entrypoint: str, data: bytes) -> Any:
    ran = guest.run(entrypoint, data)
    assert ran.output is not None, ran.fault
    return decode_record(ran.output)
