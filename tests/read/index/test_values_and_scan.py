"""The index answers as reading every cell does, after whatever happened (SE-20 to SE-26)."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import MIGRATE, PIN
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Event, Ref
from aos.core.state.cell import Cell
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.host.follower import Follower
from aos.manifest.load import load
from aos.read.index.index_file import DATABASES, LOG
from aos.read.index.indexed_cells import IndexedValues
from aos.read.index.indexed_workflows import IndexedWorkflow
from aos.read.index.world_index import WorldIndex, use_index
from aos.read.views import cell_view, count_view
from aos.read.views.cell_selection import CellSelection
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.read.where.attributes import Attribute
from aos.read.where.condition import WhereInvalid, parse
from aos.read.where.matching import CellFinder, CellPage, CellQuery, CountedCells
from aos.values.cbor import encode
from tests.cli.shell import in_silence
from tests.cli.test_commands import GARBAGE
from tests.host import puppet
from tests.host.apply.test_upgrades import counted
from tests.host.puppet import PUPPET
from tests.host.upgrades import migrating, rebuilt, state_is
from tests.node.nodes import running_kernel
from tests.read.index.index_oracle import read_at_head
from tests.tools import long_form

STATE: Final = {
    "record": {
        "n": {"nat": {}},
        "name": {"option": {"text": {}}},
        "tags": {"list": {"text": {}}},
        "amount": {"option": {"dec128": {}}},
        "paid": {"bool": {}},
        "way": {"variant": {"Post": {"unit": {}}, "Courier": {"record": {"who": {"text": {}}}}}},
        "context": {"map": {"key": {"text": {}}, "value": {"bytes": {}}}},
    }
}
SETTINGS: Final = {
    PUPPET: {
        "number": "n", "called": "name", "tag": "tags", "amount": "amount", "paid": "paid",
        "way": "way", "courier": "way.Courier.who", "any": "context.any", "gone": "no.such.path",
    }
}  # fmt: skip
NAMES: Final = (
    None, *(name for name in SETTINGS[PUPPET] if name != "gone"),
    "status", "key", "fault", "last_active",
)  # fmt: skip
"""Names that a count can be grouped by."""

ROUNDS: Final = 60 if long_form() else 14
WORDS: Final = ("", "a", "ab", "a0", "a\u0000", "a\u0000b", "b", "ä", "z\u0000", "zz")
AMOUNTS: Final = (
    "-12.5", "-12.05", "-12", "-120", "-1", "-1.05", "-1.5", "0", "1", "1.05", "1.50", "2", "1E+3",
    "-1E-9",
)  # fmt: skip


def manifest(version: int) -> Any:
    files = puppet.files(version=version)
    nodes = json.loads(files["m.air.json"])
    for node in nodes:
        state_is(STATE)(node)
    wasm = rebuilt(files["p.wasm"], version)
    return load({"m.air.json": json.dumps(nodes).encode(), "p.wasm": wasm})


def random_state(chosen: random.Random) -> dict[str, Any]:
    way: dict[str, Any] = {"$tag": "Post"}
    if chosen.random() < 0.5:
        way = {"$tag": "Courier", "$value": {"who": chosen.choice(WORDS)}}
    packed: list[Any] = ["a", "ab", 1, 2**63, True, None, ["a", 1, False], {"x": 1}]
    return {
        "n": chosen.choice([0, 1, 2, 2**63, 2**64 - 1]),
        "name": chosen.choice([None, *WORDS]),
        "tags": chosen.choices(WORDS, k=chosen.randrange(4)),
        "amount": chosen.choice([None, *AMOUNTS]),
        "paid": chosen.random() < 0.5,
        "way": way,
        "context": {} if chosen.random() < 0.3 else {"any": encode(chosen.choice(packed))},
    }


def random_events(chosen: random.Random) -> Iterator[Any]:
    for _ in range(chosen.randrange(1, 25)):
        key = f"k-{chosen.randrange(30)}"
        kind = chosen.random()
        if kind < 0.07:
            yield puppet.do(key, GARBAGE)
        elif kind < 0.14:
            yield puppet.do(key, encode({"state": None}))  # it is deleted
        else:
            state: Any = random_state(chosen)
            out: Any = {"state": encode(state)}
            if kind < 0.3:
                out["effects"] = [{"effect": puppet.ECHO, "params": encode({"word": "w"})}]
            elif kind < 0.5:
                out["status"] = chosen.choice(["completed", "failed"])
            yield puppet.do(key, encode(out))


def random_where(chosen: random.Random, *, is_ordered: bool = True) -> str:
    """A condition of at most as many terms as one may have."""
    while True:
        found = random_text(chosen, is_ordered=is_ordered)
        try:
            parse(found)
        except WhereInvalid as problem:
            if "expected at most" not in problem.message:
                raise
        else:
            return found


def random_word(chosen: random.Random) -> str:
    return json.dumps(chosen.choice(WORDS))


def random_term(chosen: random.Random) -> str:
    match chosen.randrange(12):
        case 0:
            return f"number {chosen.choice(['=', '!=', '<', '<=', '>', '>='])} 2"
        case 1:
            return f"called {chosen.choice(['=', '!=', '<', '>=', '^='])} {random_word(chosen)}"
        case 2:
            return f"tag {chosen.choice(['=', '!=', '^='])} {random_word(chosen)}"
        case 3:
            return f"amount {chosen.choice(['=', '<', '>=', '!='])} {chosen.choice(AMOUNTS)}"
        case 4:
            return f"paid {chosen.choice(['=', '!='])} true"
        case 5:
            return f"way {chosen.choice(['=', '!='])} Courier"
        case 6:
            return f"courier in ({random_word(chosen)}, {random_word(chosen)})"
        case 7:
            value = chosen.choice(["a", "1", "true", '"1"'])
            operators = ["=", "!="] if value == "true" else ["=", "!=", "<", ">="]
            return f"any {chosen.choice(operators)} {value}"
        case 8:
            name = chosen.choice(["called", "amount", "tag", "any", "courier", "number"])
            return f"{name} {chosen.choice(['=', '!='])} null"
        case 9:
            return f"status in (running, {chosen.choice(['failed', 'waiting', 'completed'])})"
        case 10:
            return f"key ^= k-{chosen.randrange(3)}"
    return "last_active >= 2020-01-01T00:00:00Z"


def random_text(chosen: random.Random, *, is_ordered: bool) -> str:
    def part(depth: int) -> str:
        match chosen.randrange(6) if depth else 0:
            case 1:
                return f"not ({part(depth - 1)} and {part(depth - 1)})"
            case 2:
                return f"({part(depth - 1)} or {part(depth - 1)} and {part(depth - 1)})"
            case 3:
                return f"not {part(depth - 1)}"
            case 4:
                return f"called not in ({random_word(chosen)}, {random_word(chosen)})"
            case 5:
                return f"tag like {json.dumps(chosen.choice(WORDS) + '%')}"
        return random_term(chosen)

    word = chosen.choice([" and ", " and ", " or "])
    terms = word.join(part(2) for _ in range(chosen.randrange(4)))
    if not is_ordered:
        return terms or "n >= 0"
    names = ["called", "number", "amount", "tag", "any", "last_active", "key", "status"]
    order = f" order by {chosen.choice(names)} {chosen.choice(['asc', 'desc'])}"
    return terms + order if not terms or chosen.random() < 0.5 else terms


class Exact:
    """The index, which must have everything that is asked for."""

    def __init__(self, finder: CellFinder) -> None:
        self.finder = finder

    def page(self, query: CellQuery, *, limit: int, offset: int) -> CellPage:
        answer = self.finder.page(query, limit=limit, offset=offset)
        assert answer is not None
        return answer

    def at_rest(self, ids: Sequence[CellId]) -> Mapping[CellId, Cell]:
        return self.finder.at_rest(ids)

    def count(self, query: CellQuery, by: Attribute | None, limit: int) -> CountedCells:
        answer = self.finder.count(query, by, limit)
        assert answer is not None
        return answer


class Followed:
    """A world that is followed and indexed in this process."""

    def __init__(self, path: Path, settings: Any = SETTINGS) -> None:
        self.path = path
        self.settings = settings
        self.loop = asyncio.new_event_loop()
        self.said: list[str] = []
        self.filled: list[str] = []
        self.open()

    def open(self) -> None:
        (self.path / "node").mkdir(exist_ok=True)
        self.follower = Follower(self.path)
        self.loop.run_until_complete(self.follower.start())
        index = WorldIndex.open(
            self.path / "node" / "index", self.follower.store, self.said.append,
            settings=self.settings,
        )  # fmt: skip
        assert index is not None
        self.index = index

    def advance(self) -> WorldIndex:
        """Wait until no cell has anything to run; return the index."""
        self.loop.run_until_complete(self.follower.advance_to())
        until_s = time.monotonic() + 60
        while self.follower.state.ring:
            assert time.monotonic() < until_s
            self.loop.run_until_complete(self.follower.advance_to())
        make = IndexedValues._make

        def noted(values: IndexedValues, workflow: IndexedWorkflow) -> int:
            self.filled.append(workflow.name)
            return make(values, workflow)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(IndexedValues, "_make", noted)
            while not self.index.advance(self.follower.state):
                pass
        return self.index

    def close(self) -> None:
        """End as a kill does."""
        self.index.abandon()
        self.follower.close()

    def close_in_order(self) -> None:
        """End without a log."""
        self.index.close()
        self.follower.close()

    def compare(self, **filters: Any) -> int:
        """Compare a list from the index with one without it; return the number of cells."""
        limit, offset = filters.pop("limit", 10_000), filters.pop("offset", 0)
        selection = CellSelection(workflow=PUPPET, aliases=self.settings, **filters)
        with self.views() as views:
            documents = [
                cell_view.cells(view, selection, limit=limit, offset=offset) for view in views
            ]
        for document in documents:
            document.pop("looked_at")
        assert documents[0] == documents[1], filters
        total: int = documents[0]["total"]
        return total

    @contextmanager
    def views(self) -> Iterator[list[View]]:
        """A view that reads every cell, and one that reads the index."""
        index, state = self.advance(), self.follower.state
        plain, by_index = (View(state, self.follower.store) for _ in range(2))
        with index.reading(state) as reader:
            use_index(by_index, reader)
            assert by_index.finder is not None
            by_index.finder = Exact(by_index.finder)
            yield [plain, by_index]

    def compare_counts(self, group_by: str | None, **filters: Any) -> Document:
        """Compare counts from the index with those without it; return them."""
        selection = CellSelection(workflow=PUPPET, aliases=self.settings, **filters)
        with self.views() as views:
            scanned, indexed = (
                count_view.cell_counts(view, selection, group_by=group_by) for view in views
            )
        assert scanned == indexed, (group_by, filters)
        return scanned


@contextmanager
def followed(path: Path, settings: Any = SETTINGS) -> Iterator[Followed]:
    opened = Followed(path, settings)
    try:
        yield opened
    finally:
        opened.close()
        opened.loop.close()


def damaged(path: Path, chosen: random.Random) -> None:
    """Cut a file of the index, or flip a byte of it."""
    file = path / "node" / "index" / chosen.choice(DATABASES)
    data = bytearray(file.read_bytes())
    if chosen.random() < 0.5:
        del data[chosen.randrange(len(data)) :]
    else:
        data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
    file.write_bytes(data)


def send(path: Path, *items: Any) -> None:
    with open_writer(path) as writer:
        list(writer.send(items))


@contextmanager
def running(path: Path) -> Iterator[Path]:
    """A world whose states have fields of many types, which another process runs."""
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(manifest(1))
    with running_kernel(path, executors=False):
        yield path


@pytest.fixture
def rich(tmp_path: Path) -> Iterator[Path]:
    with running(tmp_path / "world") as path:
        yield path


@pytest.mark.parametrize("seed", range(3 if long_form() else 2))
def test_the_index_equals_a_scan_after_random_steps(rich: Path, seed: int) -> None:
    """SE-15, SE-20, SE-22, SE-23, SE-25: steps, deletions, faults, pins, snapshots, kills,
    damage."""
    chosen = random.Random(f"search {seed} {ROUNDS}")
    selected = grouped = version = 0
    with followed(rich) as world:
        for _ in range(ROUNDS):
            send(rich, *random_events(chosen))
            match chosen.randrange(8):
                case 0:
                    assert in_silence("snapshot", "--world", rich) == 0
                case 1:
                    world.close()
                    world.open()
                case 2:
                    world.advance()
                    world.close()
                    send(rich, *random_events(chosen))
                    world.open()
                case 3:
                    chosen.choice((world.close, world.close_in_order))()
                    damaged(rich, chosen)
                    world.open()
                case 4 if version < 3:
                    version += 1
                    with open_writer(rich) as writer:
                        writer.apply(manifest(1 + version), mode=PIN)
            for _ in range(12):
                selected += world.compare(
                    condition=random_where(chosen), limit=chosen.choice([3, 10_000]),
                    offset=chosen.choice([0, 0, 2]),
                )  # fmt: skip
                counts = world.compare_counts(
                    chosen.choice(NAMES), condition=random_where(chosen, is_ordered=False)
                )
                grouped += len(counts["groups"])
            world.compare(status="failed", key_prefix="k-1")
            world.compare_counts("status", status="failed", key_prefix="k-1")
            world.compare(fault="output_malformed", older_than_ns=0)
    assert selected > ROUNDS
    assert grouped > ROUNDS


def test_every_flipped_or_missing_byte_is_noticed(rich: Path) -> None:
    """SE-25: lists are right after any damage."""
    chosen = random.Random("damage")
    send(rich, *(each for _ in range(4) for each in random_events(chosen)))
    rebuilds = 0
    for _ in range(60 if long_form() else 12):
        with followed(rich) as world:
            world.compare(condition="number >= 0 order by called")
            rebuilds += bool(world.filled)
            world.index.close()
        damaged(rich, chosen)
    assert rebuilds > 3


def test_an_index_that_is_not_damaged_is_not_filled_again(rich: Path) -> None:
    """SE-22, SE-24"""
    chosen = random.Random("again")
    with followed(rich) as world:
        send(rich, *random_events(chosen))
        world.compare(condition="number >= 0")
        assert len(world.filled) == 1
        assert [each.partition(":")[0] for each in world.said] == [f'search."{PUPPET}".gone']
    send(rich, *random_events(chosen))
    with followed(rich) as world:
        world.compare(condition="number >= 0 order by amount desc")
        assert world.filled == []
    more = {PUPPET: {**SETTINGS[PUPPET], "other": "n"}, "no/such@1": {"x": "y"}}
    with followed(rich, more) as world:  # another name of the same path
        world.compare(condition="other >= 0")
        assert world.filled == []
    fewer = {PUPPET: {"number": "n"}}
    with followed(rich, fewer) as world:
        world.compare(condition="number >= 0")
        assert len(world.filled) == 1


def test_an_index_of_another_world_or_an_older_backup_is_rebuilt(
    rich: Path, tmp_path: Path
) -> None:
    """SE-25"""
    chosen = random.Random("other")
    other = tmp_path / "other"
    with running(other):
        send(other, *random_events(chosen))
        with followed(other) as world:
            world.compare(condition="number >= 0")
    send(rich, *random_events(chosen))
    with followed(rich) as world:
        world.compare(condition="number >= 0")
    folder = Path("node") / "index"
    for world_path in (other, rich):
        with followed(world_path) as world:
            world.advance().close()
    shutil.rmtree(rich / folder)
    shutil.copytree(other / folder, rich / folder)

    with followed(rich) as world:
        assert world.compare(condition="number >= 0")
        assert len(world.filled) == 1
        assert "another world" in world.said[0]
        world.index._file.db.execute("UPDATE head SET record = record + 7")
    with followed(rich) as world:
        world.compare(condition="number >= 0")
        assert "another history" in world.said[0]
        world.index._file.db.execute("UPDATE main.head SET frame = x'00'")
    with followed(rich) as world:
        world.compare(condition="number >= 0")
        assert "another history" in world.said[0]
        world.index._file.db.execute("UPDATE attributes.head SET frame = x'00'")
    with followed(rich) as world:  # a crash of the machine has left one file behind the other
        world.compare(condition="number >= 0")
        assert world.said == world.said[-1:]
        assert len(world.filled) == 1


@pytest.mark.parametrize("is_open", [True, False])
def test_migrated_states_are_indexed(tmp_path: Path, *, is_open: bool) -> None:
    """SE-22: a manifest replaces all states without a record for each of them."""
    path = counted(tmp_path / "world", 1, 2)
    where = "status in (running, waiting) order by last_active"
    with running_kernel(path, executors=False):
        with followed(path, {PUPPET: {}}) as world:
            assert world.compare(condition=where) > 0
            if is_open:
                migrate(path)
                assert world.compare(condition=where) > 0
                assert len(world.filled) == 2
        if not is_open:
            migrate(path)
            with followed(path, {PUPPET: {}}) as world:
                assert world.compare(condition=where) > 0
                assert len(world.filled) == 1


def migrate(path: Path) -> None:
    with open_writer(path) as writer:
        assert isinstance(writer.apply(migrating(), mode=MIGRATE).answer, Admitted)


def test_a_reader_adds_the_newest_values_in_memory(rich: Path) -> None:
    """IX-44, SE-22: conditions, orders and counts, above a file that lacks the newest records."""
    chosen = random.Random("above")
    selected = 0
    send(rich, *(event for _ in range(3) for event in random_events(chosen)))
    with followed(rich) as world:
        world.advance()
        for _ in range(12 if long_form() else 4):
            world.index.abandon()
            send(rich, *random_events(chosen))
            world.loop.run_until_complete(world.follower.advance_to())
            until_s = time.monotonic() + 60
            while world.follower.state.ring:
                assert time.monotonic() < until_s
                world.loop.run_until_complete(world.follower.advance_to())
            state, store = world.follower.state, world.follower.store
            with read_at_head(rich / "node" / "index", store, state) as reader:
                assert reader is not None
                assert reader.as_of == state.next_seq - 1
                plain, by_index = View(state, store), View(state, store)
                use_index(by_index, reader)
                assert by_index.finder is not None
                by_index.finder = Exact(by_index.finder)
                for _ in range(12):
                    where = random_where(chosen)
                    selection = CellSelection(workflow=PUPPET, aliases=SETTINGS, condition=where)
                    indexed, expected = (
                        cell_view.cells(view, selection) for view in (by_index, plain)
                    )
                    assert indexed == expected, where
                    selected += indexed["total"]
                    counted = CellSelection(
                        workflow=PUPPET, aliases=SETTINGS,
                        condition=random_where(chosen, is_ordered=False),
                    )  # fmt: skip
                    by = chosen.choice(NAMES)
                    assert count_view.cell_counts(
                        by_index, counted, group_by=by
                    ) == count_view.cell_counts(plain, counted, group_by=by)
            world.follower.close()
            world.open()
    assert selected > 10


def test_after_a_manifest_a_reader_does_not_use_the_values(rich: Path) -> None:
    """SE-22: until the process that writes has read it."""
    send(rich, *random_events(random.Random("manifest")))
    with followed(rich) as world:
        world.advance()
        world.index.abandon()
        with open_writer(rich) as writer:
            writer.apply(manifest(2), mode=PIN)
        world.loop.run_until_complete(world.follower.advance_to())
        state, store = world.follower.state, world.follower.store
        with read_at_head(rich / "node" / "index", store, state) as reader:
            assert reader is not None
            view = View(state, store)
            use_index(view, reader)
            selection = CellSelection(
                workflow=PUPPET, aliases=SETTINGS, condition="number >= 0"
            ).resolved(state)
            query = selection.query(view.now_ns)
            assert view.finder is not None
            assert query is not None
            assert view.finder.page(query, limit=1, offset=0) is None
        world.follower.close()
        world.open()
        world.compare(condition="number >= 0 order by amount desc")


def test_after_an_erasure_no_file_has_what_states_had_before(rich: Path) -> None:
    """SE-27: not the file of values, and not its log."""
    personal: dict[Any, Any] = {**random_state(random.Random("personal")), "name": "personal"}
    told = puppet.do("k-1", encode({"state": encode({**personal, "tags": ["private"] * 200})}))
    send(rich, told)
    with open_reader(rich) as reader:
        records = [from_bytes(data) for frame in reader.store.frames() for data in frame.records]
    refs = [event.value for event in records if isinstance(event, Event)]
    [value] = [event.hash for event in refs if isinstance(event, Ref)]
    with followed(rich) as world:
        assert world.compare(condition="called = personal and tag = private") == 1
        files = [
            rich / "node" / "index" / f"{name}{end}" for name in DATABASES for end in ("", LOG)
        ]
        assert any(b"personal" in file.read_bytes() for file in files)
        send(rich, puppet.do("k-1", encode({"state": encode({**personal, "name": None})})))
        assert world.compare(condition="called = personal") == 0
        with open_writer(rich) as writer:
            answer = writer.control("erase", value=value)
            assert isinstance(answer, Admitted), answer
        assert world.compare(condition="tag = private") == 0

        for file in files:
            data = file.read_bytes()
            assert b"personal" not in data, file
            assert b"private" not in data, file
