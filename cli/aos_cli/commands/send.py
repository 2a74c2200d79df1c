"""``aos send``: send events to a world (spec/cli.md, C-22 to C-24)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.errors import AosError, BadUsage, Refused, Unavailable
from aos.host.door.writer import Item, Writer
from aos.host.folder.folder import is_group
from aos.manifest.effective import Effective
from aos.read.lens.words import count, name_cell
from aos.values.errors import ValueProblem, quoted
from aos.values.json_text import parse_json
from aos_cli.open_writing import cell_document, cell_text, writing_to
from aos_cli.options import DEFAULT_WORLD, Json, NodeUrl, World, address_of, argument, option
from aos_cli.output import Advance, line, note, print_json_line, progress
from aos_cli.sealed_sending import Seal, in_force, sealer

if TYPE_CHECKING:
    from aos.client.sending import Accepted
    from aos.host.door.group_writer import GroupWriter
    from aos_cli.node_world import NodeWriter

LINE_BYTES_MAX: Final = 20 * 1024 * 1024
CHUNK_BYTES: Final = 256 * 1024
STDIN: Final = "-"
CELLS_SHOWN: Final = 8

REASONS_SHOWN: Final = 10
"""How many different reasons are printed. Refusals for others are only counted."""

FIELDS: Final = "{schema, value, submission_id?}"
UNROUTED: Final = "reached no cell: no workflow subscribes to it"


def send(
    schema: Annotated[
        str | None, argument("SCHEMA", "The event's schema; or - for JSON lines on stdin.")
    ] = None,
    value: Annotated[str | None, argument("JSON", "The event.")] = None,
    *,
    jsonl: Annotated[
        str | None,
        option(
            "FILE", "File of events, one JSON object per line: {schema, value, submission_id?}."
        ),
    ] = None,
    submission_id: Annotated[
        str | None,
        option("ID", "Submission id; sending the same event with it again has no effect.", "--id"),
    ] = None,
    seal: Seal = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if schema == STDIN and value is None and jsonl is None:
        schema, jsonl = None, STDIN
    if schema is not None and value is not None and jsonl is None:
        item = Item(schema=schema, value=_json_value(value, "JSON"), submission_id=submission_id)
        return _send_one(node, world, item, seal=seal, json=json)
    if schema is not None or value is not None or jsonl is None:
        raise BadUsage("send: expected SCHEMA JSON, or --jsonl FILE, or - (see aos send --help)")
    if submission_id is not None:
        raise BadUsage("--id goes with one event; of JSON lines, each has its own submission_id")
    with _open_lines(jsonl) as lines:
        return _send_many(node, world, lines, seal=seal, json=json)


def _send_one(node: str | None, world: Path, item: Item, *, seal: Path | None, json: bool) -> int:
    with _receiver(node, world) as writer:
        if seal is not None:
            item = sealer(seal, in_force(writer, node), is_one=True)(item)
        answers = _Answers(writer, is_json=json, is_each_shown=True)
        answers.take(writer.send([item], batch_items=1))
    is_folder = node is None and address_of(world) is None
    if is_folder and not json and Rule.INSTANCE_IS_UNKNOWN in answers.rules:
        _show_near_keys(world / answers.shard, item)
    return answers.exit_code()


def _receiver(
    node: str | None, world: Path
) -> (
    AbstractContextManager[Writer]
    | AbstractContextManager[GroupWriter]
    | AbstractContextManager[NodeWriter]
):
    if node is None:
        if address_of(world) is not None:
            # Few worlds are named by an address.
            from aos_cli.addressed_group import receiver_at  # noqa: PLC0415

            return receiver_at(world)
        if not is_group(world):
            return writing_to(world)
        # Few worlds are groups.
        from aos.host.door.group_writer import GroupWriter  # noqa: PLC0415
        from aos.host.folder.group import open_group  # noqa: PLC0415

        group = open_group(world)
        return GroupWriter(group.shards, lambda index: writing_to(group.location(index)))
    # The client of a node imports much that the folder's does not need.
    from aos_cli.node_world import writing_to_node  # noqa: PLC0415

    return writing_to_node(node)


def _show_near_keys(world: Path, item: Item) -> None:
    """Name instances with a key that resembles the one that does not exist (C-24b)."""
    # Reading the world imports much that a successful send does not need.
    from aos_cli.chosen_cells import near_keys  # noqa: PLC0415

    workflow_and_keys = near_keys(world, item)
    if workflow_and_keys is None:
        return
    workflow, keys = workflow_and_keys
    if keys:
        note(f"instances with a key like it: {', '.join(keys)}")
    note(f"instances of this workflow: aos inspect cells --workflow {workflow}")


def _send_many(
    node: str | None, world: Path, lines: _Lines, *, seal: Path | None, json: bool
) -> int:
    """Send every event up to the first invalid line. A refusal does not stop the others."""
    with _receiver(node, world) as writer:
        if seal is not None:
            lines.seal = sealer(seal, in_force(writer, node), is_one=False)
        answers = _Answers(writer, is_json=json, is_each_shown=lines.is_typed)
        is_quiet = not json and not lines.is_typed
        try:
            with progress("sending") if is_quiet else nullcontext() as advance:
                for items in lines.items():
                    answers.take(writer.send(items), advance)
        except (AosError, KeyboardInterrupt):
            answers.summary("before that: ")
            raise
    answers.summary()
    if lines.problem is not None:
        raise lines.problem
    return answers.exit_code()


def _as_it_is(item: Item) -> Item:
    return item


@dataclass(slots=True, kw_only=True)
class _Lines:
    """JSON lines of a file. If ``items`` ended early, ``problem`` is the reason."""

    file: BinaryIO
    name: str
    is_typed: bool = False
    """The lines are typed on a terminal: the command prints an answer to each."""
    problem: AosError | None = None
    seal: Callable[[Item], Item] = _as_it_is
    """Seals the sealed places of an event; raises BadUsage if it cannot."""
    number: int = 0
    _parts: list[bytes] = field(default_factory=list)
    """The parts read so far of a line whose end has not arrived."""

    def items(self) -> Iterator[Iterable[Item]]:
        """Items in groups: a file is one group; a pipe's groups are the lines that have arrived.

        They contain every line before the first invalid one; nothing after it is read.
        """
        if not self.file.seekable():
            while self.problem is None and (lines := self._next_lines()):
                yield list(self._read(lines))
            return
        yield self._read(self._all())

    def _all(self) -> Iterator[bytes]:
        while lines := self._next_lines():
            yield from lines

    def _next_lines(self) -> list[bytes]:
        """The next complete lines; waits for at least one. Empty at the end.

        A line that exceeds the limit is returned as soon as that is known, without its end.
        """
        size = sum(map(len, self._parts))
        while True:
            try:
                data: bytes = self.file.read1(CHUNK_BYTES)  # type: ignore[attr-defined]  # every buffered file has it
            except OSError as error:
                self.problem = Unavailable(f"{self.name}: cannot be read further: {error.strerror}")
                return []
            *lines, tail = data.split(b"\n")
            if lines:
                lines[0] = b"".join((*self._parts, lines[0]))
                self._parts = [tail]
                return lines
            self._parts.append(tail)
            size += len(tail)
            if not data or size > LINE_BYTES_MAX:
                last, self._parts = b"".join(self._parts), []
                return [last] if last else []

    def _read(self, lines: Iterable[bytes]) -> Iterator[Item]:
        for data in lines:
            self.number += 1
            source = f"{self.name}:{self.number}"
            try:
                _check_length(data, source)
                if data.strip():
                    yield self._sealed(_item_of_line(data, source), source)
            except BadUsage as problem:
                self.problem = problem
                return

    def _sealed(self, item: Item, source: str) -> Item:
        try:
            return self.seal(item)
        except BadUsage as problem:
            raise BadUsage(f"{source}: {problem}") from None


@contextmanager
def _open_lines(name: str) -> Iterator[_Lines]:
    if name == STDIN:
        if sys.stdin is None:
            raise BadUsage("stdin is closed: expected JSON lines on it")
        yield _Lines(file=sys.stdin.buffer, name="stdin", is_typed=sys.stdin.isatty())
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115  # closed below
    except OSError as error:
        raise BadUsage(
            f"{name}: the file cannot be read: {error.strerror} (expected JSON lines)"
        ) from error
    with file:
        yield _Lines(file=file, name=name)


class _Answers:
    """Prints the answers as they arrive, and counts them for the summary and the exit code."""

    def __init__(
        self, writer: Writer | GroupWriter | NodeWriter, *, is_json: bool, is_each_shown: bool
    ) -> None:
        self._writer = writer
        self._is_json = is_json
        self._is_each_shown = is_each_shown
        self._manifest: Effective | None = None
        self._seqs: tuple[int, int] | None = None
        self._counts = {"admitted": 0, "duplicate": 0, "refused": 0}
        self._by_shard: Counter[str] = Counter()
        """How many answers of a group's shards were no refusals, by the shard's name."""
        self.shard = ""
        """The shard of a group that gave the last answer; empty for a world."""
        self._ended = 0
        """How many events also went to flows that had ended."""
        self.rules: set[Rule] = set()
        """The rules that refused an event."""
        self._refusals = Refusals()

    def take(
        self,
        answers: Iterable[Answer | Accepted | Mapping[str, Answer]],
        advance: Advance | None = None,
    ) -> None:
        for answer in answers:
            by_shard = answer if isinstance(answer, Mapping) else {"": answer}
            kinds = set(map(_answer_kind, by_shard.values()))
            kind = next(kind for kind in ("refused", "admitted", "duplicate") if kind in kinds)
            self._counts[kind] += 1
            number = sum(self._counts.values())
            if self._is_json:
                print_json_line(self._document(by_shard, kind, number), at_once=True)
            for self.shard, shard_answer in by_shard.items():
                self._take(shard_answer, number)
            if advance is not None:
                advance(number, 0)

    def _take(self, answer: Answer | Accepted, number: int) -> None:
        if isinstance(answer, Refusal):
            self.rules.add(answer.rule)
        elif self.shard:
            self._by_shard[self.shard] += 1
        else:
            first, last = self._seqs or (answer.seq, answer.seq)
            self._seqs = min(first, answer.seq), max(last, answer.seq)
        if self._is_json:
            return
        if isinstance(answer, Refusal):
            self._show_refusal(answer, number)
        elif self._is_each_shown:
            line(self._words(answer))
            self._note_ended(answer)
        elif not isinstance(answer, Duplicate) and answer.ended:
            self._ended += 1

    def summary(self, prefix: str = "") -> None:
        """Print the counts of answers, unless each answer was printed already."""
        if self._is_json or self._is_each_shown:
            return
        self._refusals.finish()
        parts = [f"{self._counts['admitted']:,} admitted"]
        for kind, words in (("duplicate", "sent before"), ("refused", "refused")):
            if self._counts[kind]:
                parts.append(f"{self._counts[kind]:,} {words}")
        records_text = ""
        if self._seqs is not None:
            first, last = self._seqs
            records_text = (
                f" (record {first:,})" if first == last else f" (records {first:,} to {last:,})"
            )
        elif self._by_shard:
            shards = (f"{name}: {number:,}" for name, number in sorted(self._by_shard.items()))
            records_text = f" (by shard: {', '.join(shards)})"
        line(prefix + ", ".join(parts) + records_text)
        if self._ended:
            note(f"{count(self._ended, 'event')} also went to flows that had ended")

    def exit_code(self) -> int:
        if not self.rules:
            return 0
        is_busy = self.rules == {Rule.WORLD_IS_BUSY}
        return Unavailable.exit_code if is_busy else Refused.exit_code

    def _in_force(self) -> Effective | None:
        if self._manifest is None:
            self._manifest = in_force(self._writer, None)
        return self._manifest

    def _document(
        self, by_shard: Mapping[str, Answer | Accepted], kind: str, number: int
    ) -> dict[str, object]:
        """The line of an event. One that a group gave to several shards has a document of each."""
        documents = [
            {"answer": _answer_kind(answer), **({"shard": shard} if shard else {})}
            | self._answer_document(answer)
            for shard, answer in by_shard.items()
        ]
        if len(documents) > 1:
            return {"number": number, "answer": kind, "shards": documents}
        return {"number": number, **documents[0]}

    def _answer_document(self, answer: Answer | Accepted) -> dict[str, object]:
        document: dict[str, object] = {}
        match answer:
            case Duplicate(seq=seq):
                document["seq"] = seq
            case Refusal(rule=rule, message=message):
                document["rule"] = rule.value
                document["message"] = message
            case _:
                document["seq"] = answer.seq
                document["to"] = self._cells(answer, answer.to)
                if answer.ended:
                    document["ended"] = self._cells(answer, answer.ended)
        return document

    def _words(self, answer: Admitted | Duplicate | Accepted) -> str:
        place = f"{self.shard}:{answer.seq}" if self.shard else f"{answer.seq}"
        if isinstance(answer, Duplicate):
            return f"{place}  sent before"
        cells = self._names(answer, answer.to[:CELLS_SHOWN])
        if len(answer.to) > CELLS_SHOWN:
            cells.append(f"{len(answer.to) - CELLS_SHOWN} more")
        return f"{place}  → {', '.join(cells)}" if cells else f"{place}  {UNROUTED}"

    def _cells(
        self, answer: Admitted | Accepted, cells: Sequence[tuple[str, Any]]
    ) -> list[dict[str, object]]:
        if isinstance(answer, Admitted):
            return [cell_document(cell, self._in_force()) for cell in cells]
        return [{"workflow": name, "key": key} for name, key in cells]

    def _names(self, answer: Admitted | Accepted, cells: Sequence[tuple[str, Any]]) -> list[str]:
        if isinstance(answer, Admitted):
            return [cell_text(cell, self._in_force()) for cell in cells]
        return [name_cell(name, key) for name, key in cells]

    def _note_ended(self, answer: Admitted | Duplicate | Accepted) -> None:
        if isinstance(answer, Duplicate):
            return
        for name in self._names(answer, answer.ended[:CELLS_SHOWN]):
            note(f"{name} had ended, and ignores the event")
        if len(answer.ended) > CELLS_SHOWN:
            note(f"{len(answer.ended) - CELLS_SHOWN} more had ended, and ignore the event")

    def _show_refusal(self, answer: Refusal, number: int) -> None:
        message = f"{self.shard}: {answer.message}" if self.shard else answer.message
        if self._is_each_shown:
            note(f"aos: {message}", style="red")
        else:
            self._refusals.add(number, message)


@dataclass(slots=True)
class _AlikeRefusals:
    """Refusals for one reason: the number of the first event and of the last, and how many came
    after the first."""

    first: int
    last: int
    repeats: int = 0


class Refusals:
    """Prints the refusals of many events: the first one for each reason immediately, the counts of
    the others at the end (C-23)."""

    def __init__(self) -> None:
        self._alike: dict[str, _AlikeRefusals] = {}
        self._hidden = 0

    def add(self, number: int, message: str) -> None:
        alike = self._alike.get(message)
        if alike is not None:
            alike.repeats += 1
            alike.last = number
        elif len(self._alike) == REASONS_SHOWN:
            self._hidden += 1
        else:
            self._alike[message] = _AlikeRefusals(first=number, last=number)
            note(f"aos: event {number}: {message}", style="red")

    def finish(self) -> None:
        for alike in self._alike.values():
            if alike.repeats:
                note(
                    f"and {alike.repeats:,} more for the same reason as event {alike.first}, up to "
                    f"event {alike.last:,} (--json lists them all)",
                    style="red",
                )
        if self._hidden:
            note(f"and {self._hidden:,} more were refused (--json lists them all)", style="red")


def _answer_kind(answer: Answer | Accepted) -> str:
    match answer:
        case Duplicate():
            return "duplicate"
        case Refusal():
            return "refused"
        case _:
            return "admitted"


def _json_value(text: str, source: str) -> object:
    try:
        return parse_json(text, max_bytes=LINE_BYTES_MAX)
    except ValueProblem as problem:
        raise BadUsage(f"{source}: {problem}") from problem


def _check_length(data: bytes, source: str) -> None:
    """Raise ``BadUsage`` if the line is too long; called first, also for blank lines."""
    if len(data) > LINE_BYTES_MAX:
        raise BadUsage(
            f"{source}: expected at most {LINE_BYTES_MAX:,} bytes in a line, found at least "
            f"{len(data):,} (this line and the lines after it were not sent)"
        )


def _item_of_line(data: bytes, source: str) -> Item:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadUsage(f"{source}: expected UTF-8, found another byte at {error.start}") from error
    event = _json_value(text, source)
    if not isinstance(event, dict):
        raise BadUsage(f"{source}: expected an object {FIELDS}")
    unknown = sorted(set(event) - {"schema", "value", "submission_id"})
    if unknown:
        raise BadUsage(f"{source}: expected {FIELDS}, found {quoted(unknown[0])} in it")
    schema, submission_id = event.get("schema"), event.get("submission_id")
    if not isinstance(schema, str) or "value" not in event:
        missing_field = "value" if isinstance(schema, str) else "schema (a text)"
        raise BadUsage(f"{source}: expected {FIELDS}, found no {missing_field} in it")
    if submission_id is not None and not isinstance(submission_id, str):
        raise BadUsage(f"{source}: submission_id: expected text")
    return Item(schema=schema, value=event["value"], submission_id=submission_id)
