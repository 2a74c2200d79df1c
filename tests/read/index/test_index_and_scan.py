"""The index answers as a scan of the journal does, after whatever happened (spec/index.md)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import KEEP_OPEN, MIGRATE, PIN
from aos.core.journal.records import KernelReceipt, Receipt
from aos.core.journal.vocabulary import STATUSES
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.host.folder.reader import WorldReader, open_reader
from aos.host.retention.gc import collect_world
from aos.host.retention.pruning import prune_world
from aos.host.transfer.forking import fork_world
from aos.node.reading import read_document
from aos.read.index.index_file import INDEX_NAME, IndexChange
from aos.read.index.world_index import WorldIndex, use_index
from aos.read.views import cell_view
from aos.read.views.cell_selection import BY_ACTIVITY, BY_KEY, CellSelection
from aos.read.views.intent_view import intents
from aos.read.views.journal_view import journal
from aos.read.views.view import View
from aos.store.store import Store
from tests.cli.shell import in_silence
from tests.host import puppet
from tests.host.apply.test_upgrades import counted, steps
from tests.host.on_disk import write_on
from tests.host.puppet import PUPPET, do
from tests.host.upgrades import migrating
from tests.prove.journals import store_of
from tests.read.index.histories import KEYS, History
from tests.read.index.index_oracle import (
    MANY,
    check_cell_pages,
    check_index,
    read_at_head,
    records_of,
)
from tests.tools import long_form

PREFIXES = ("", "a", "ab", "k", "k" * 30, "y", "y" * 599, "z" * 299, "no")


class Killed(BaseException):
    """The process ends here."""


class Filled:
    """A reader of a world, and the index of it."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.said: list[str] = []
        self.reader: WorldReader = open_reader(path)
        opened = WorldIndex.open(folder, self.reader.store, self.said.append)
        assert opened is not None
        self.index = opened

    def advance(self, *, slices: int | None = None) -> bool:
        """Advance by one frame at a time; return whether it is whole."""
        self.reader.refresh()
        while slices is None or slices > 0:
            if self.index.advance(self.reader.state, lambda: True):
                return True
            slices = None if slices is None else slices - 1
            if slices is None and self.index.as_of == self.reader.seq:
                return self.index.advance(self.reader.state, lambda: False)
        return False

    def check(self) -> None:
        """Advance to the end, and compare all with a scan."""
        assert self.advance()
        assert self.index.progress(self.reader.state).is_whole
        with self.index.reading() as reader:
            check_index(reader, self.reader.state, self.reader.store, prefixes=PREFIXES)

    def close(self) -> None:
        self.index.close()
        self.reader.close()

    def kill(self) -> None:
        """Close as a process that is killed does."""
        self.index._file.abandon()
        self.reader.close()


@contextmanager
def filled(path: Path, folder: Path) -> Iterator[Filled]:
    opened = Filled(path, folder)
    try:
        yield opened
    except Killed:
        opened.kill()
        raise
    except BaseException:
        opened.close()
        raise
    else:
        opened.close()


@pytest.mark.parametrize("seed", range(8 if long_form() else 1))
def test_the_index_equals_a_scan_after_random_histories(tmp_path: Path, seed: int) -> None:
    """IX-1, IX-4, IX-5, IX-10 to IX-22: growth, restarts, kills at any write, snapshots."""
    history = History(tmp_path / "world", seed)
    folder = tmp_path / "index"
    chosen = history.chosen
    rebuilds = 0
    for _ in range(30 if long_form() else 10):
        history.grow(chosen.randrange(1, 40))
        if chosen.random() < 0.3:
            history.snapshot()
        opened = Filled(history.path, folder)
        opened.advance(slices=chosen.randrange(6))
        match chosen.randrange(3):
            case 0:
                opened.check()
                opened.close()
            case 1:
                opened.kill()
            case 2:
                killed_at(opened, chosen.randrange(40))
        rebuilds += len(opened.said)
    with filled(history.path, folder) as last:
        last.check()
    assert rebuilds == 0


def killed_at(opened: Filled, write: int) -> None:
    """Advance until the given write, and end there."""
    left = write
    carry_out = {name: getattr(IndexChange, name) for name in ("execute", "write")}

    def counted(name: str) -> Any:
        def carried_out(self: IndexChange, sql: str, *values: Any) -> Any:
            nonlocal left
            left -= not sql.startswith("SELECT")
            if left < 0:
                raise Killed
            return carry_out[name](self, sql, *values)

        return carried_out

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
        for name in carry_out:
            patch.setattr(IndexChange, name, counted(name))
        opened.advance()
    opened.kill()


def test_the_index_follows_a_world_that_grows(tmp_path: Path) -> None:
    """IX-4, IX-8: after each frame, with the state that the kernel itself has."""
    history = History(tmp_path / "world", "follows")
    world, store = history.world, store_of(history.world)
    index = WorldIndex.open(tmp_path / "index", store, pytest.fail)
    assert index is not None
    with index:
        for _ in range(150 if long_form() else 40):
            history.give(1)
            write_on(world, store)  # type: ignore[arg-type]  # as a store on disk does
            while not index.advance(world.state, lambda: True):
                assert index.as_of < world.state.next_seq
            with index.reading() as reader:
                check_index(reader, world.state, store)


@pytest.mark.parametrize("is_open", [True, False])
def test_cells_of_migrated_states_stay_in_the_index(tmp_path: Path, *, is_open: bool) -> None:
    """IX-19: a migration changes neither status nor activity."""
    path = counted(tmp_path / "world", 1, 2)
    opened = Filled(path, tmp_path / "index")
    opened.check()
    opened.close()
    with open_writer(path) as writer:
        assert isinstance(writer.apply(migrating(), mode=MIGRATE).answer, Admitted)
        if is_open:
            list(writer.send([do("1"), do("new")]))
    opened = Filled(path, tmp_path / "index")
    opened.check()
    assert opened.said == []
    opened.close()


def test_rows_of_cells_at_rest_come_from_the_index(tmp_path: Path) -> None:
    """IX-20, IX-61: without a look at their entries, but not those from before a migration."""
    path, folder = counted(tmp_path / "world", 1, 2, 3), tmp_path / "index"

    def keys_at_rest() -> set[str]:
        with open_writer(path) as writer:
            writer.snapshot()
        with filled(path, folder) as opened:
            opened.check()
            state, store = opened.reader.state, opened.reader.store
            with opened.index.reading() as reader:
                view, by_index = View(state, store), View(state, store)
                use_index(by_index, reader)
                expected = cell_view.cells(view, with_state=True)
                assert cell_view.cells(by_index, with_state=True) == expected
                assert by_index.finder is not None
                cells = by_index.finder.at_rest(list(state.cells))
        return {by_index.lens.key_text(id, hash=cell.workflow_hash) for id, cell in cells.items()}

    assert keys_at_rest() == {"0", "1", "2"}
    with open_writer(path) as writer:
        assert isinstance(writer.apply(migrating(), mode=MIGRATE).answer, Admitted)
    assert keys_at_rest() == set()
    with open_writer(path) as writer:
        list(writer.send([do("1"), do("new")]))
    steps(path)
    assert keys_at_rest() == {"1", "new"}
    shutil.rmtree(folder)
    assert keys_at_rest() == {"0", "1", "2", "new"}


def test_a_kill_at_every_write_leaves_an_index_that_continues(tmp_path: Path) -> None:
    """IX-5"""
    history = History(tmp_path / "world", "every write")
    history.grow(12)
    writes = 0
    while True:
        folder = tmp_path / f"index {writes}"
        opened = Filled(history.path, folder)
        before = opened.index.as_of
        killed_at(opened, writes)
        is_over = False
        with filled(history.path, folder) as again:
            assert again.said == []
            assert before <= again.index.as_of <= again.reader.seq
            if again.index.as_of == again.reader.seq:
                is_over = True
            again.check()
        shutil.rmtree(folder)
        if is_over:
            break
        writes += 1 if long_form() else 23
    assert writes > 100


def test_an_index_in_memory_above_a_file_equals_a_scan(tmp_path: Path) -> None:
    """IX-44: a reader reads on, and writes nothing."""
    history = History(tmp_path / "world", "above")
    folder = tmp_path / "index"
    history.grow(100)
    with filled(history.path, folder) as opened:
        opened.check()
    for _ in range(4):
        data = (folder / INDEX_NAME).read_bytes()
        history.grow(30)
        with (
            open_reader(history.path) as reader,
            read_at_head(folder, reader.store, reader.state) as found,
        ):
            assert found is not None
            check_index(found, reader.state, reader.store, prefixes=PREFIXES)
        assert (folder / INDEX_NAME).read_bytes() == data


def test_a_pruned_and_collected_world_has_an_index_of_what_is_left(tmp_path: Path) -> None:
    """IX-6: the cells and intents that the pruned records left are in it."""
    history = History(tmp_path / "world", "pruned")
    folder = tmp_path / "index"
    history.grow(120)
    with filled(history.path, folder) as opened:
        opened.check()
    history.snapshot()
    prune_world(history.path)
    with filled(history.path, folder) as opened:
        opened.check()
        assert len(opened.said) == 1
    collect_world(history.path, keep=1)
    with filled(history.path, folder) as opened:
        opened.check()
        assert opened.said == []


def test_a_kill_in_the_pruned_part_begins_it_again(tmp_path: Path) -> None:
    """IX-6"""
    history = History(tmp_path / "world", "killed in the pruned part")
    history.grow(120)
    history.snapshot()
    prune_world(history.path)
    for write in range(0, 60, 6):
        folder = tmp_path / f"index {write}"
        killed_at(Filled(history.path, folder), write)
        with filled(history.path, folder) as opened:
            opened.check()


def test_erased_values_change_nothing(tmp_path: Path) -> None:
    """IX-2: no value is in the index."""
    history = History(tmp_path / "world", "erased")
    folder = tmp_path / "index"
    history.grow(30)
    history.world.send("t/Tell@1", {"key": "a", "asks": [], "note": "personal " * 200})
    history.grow(1)
    with filled(history.path, folder) as opened:
        opened.check()
    data = (folder / INDEX_NAME).read_bytes()
    assert b"personal" not in data
    [value] = [
        each for each, blob in history.world.blobs.items() if b"personal personal" in blob[:80]
    ][:1]
    history.world.control("erase", value=value)
    history.grow(1)
    with filled(history.path, folder) as opened:
        opened.check()


def test_a_fork_an_older_backup_and_another_history_are_told_apart(tmp_path: Path) -> None:
    """IX-3"""
    history = History(tmp_path / "world", "histories")
    folder = tmp_path / "index"
    history.grow(40)
    backup = tmp_path / "backup"
    shutil.copytree(history.path, backup)
    with open_reader(backup) as reader:
        at = reader.seq
    history.grow(40)
    with filled(history.path, folder) as opened:
        opened.check()

    with filled(backup, folder) as opened:  # older
        opened.check()
        assert len(opened.said) == 1
    with filled(history.path, folder) as opened:  # the backup is a beginning of this one
        opened.check()
        assert opened.said == []
    for name in ("one", "other"):
        fork_world(history.path, tmp_path / name, at=at, open_work=KEEP_OPEN)
        with filled(tmp_path / name, folder) as opened:
            opened.check()
            assert len(opened.said) == 1
    other = History(tmp_path / "same", "histories")
    other.grow(40)
    other.chosen.seed("another way")
    other.grow(60)
    with filled(history.path, folder) as opened:
        opened.check()
    with filled(other.path, folder) as opened:  # the same world, with other later frames
        opened.check()
        assert len(opened.said) == 1


def test_every_cell_has_a_page_by_any_beginning_of_its_key(tmp_path: Path) -> None:
    """IX-41: keys of all lengths, also those that are cut in the index."""
    history = History(tmp_path / "world", "beginnings")
    for key in KEYS:
        history._tell(key)
    history.grow(1)
    with filled(history.path, tmp_path / "index") as opened:
        opened.check()
        with opened.index.reading() as reader:
            view, by_index = (View(opened.reader.state, opened.reader.store) for _ in range(2))
            use_index(by_index, reader)
            for key in KEYS:
                for length in {0, 1, len(key) // 2, len(key)}:
                    selection = CellSelection(key_prefix=key[:length])
                    for order in (BY_KEY, BY_ACTIVITY):
                        check_cell_pages(view, by_index, selection, order)


class NotRead:
    """A journal whose records can be read one by one, and not from the first to the last."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in ("frames", "intents"):
            pytest.fail(f"{name}: the journal was read")
        return getattr(self._store, name)


def test_receipts_and_the_records_of_a_cell_are_found_without_the_journal(tmp_path: Path) -> None:
    """IX-67, IX-68, IX-69: also where values have the bytes that a receipt begins with."""
    history = History(tmp_path / "world", "receipts")
    for word in ("dkindgreceipt", "dkindnkernel_receipt", "fstatusbok"):
        history._tell("a", note=f"{word} {'dkindgreceipt' * 2}")
    history.grow(200)
    with filled(history.path, tmp_path / "index") as opened:
        opened.check()
        state, store = opened.reader.state, opened.reader.store
        receipts = [
            each
            for each in records_of(store, state.next_seq - 1)
            if isinstance(each, Receipt | KernelReceipt)
        ]
        with opened.index.reading() as reader:
            by_index = View(state, cast(Store, NotRead(store)))
            use_index(by_index, reader)
            for status in STATUSES:
                found = intents(by_index, status=status, limit=MANY)
                named = [each.seq for each in reversed(receipts) if each.status == status]
                assert [row["settled_record"] for row in found["intents"]] == named
                assert found["looked_at"] == len(receipts)
                plain = intents(View(state, store), status=status, limit=MANY)
                assert plain == found
            assert {each.status for each in receipts} >= {"ok", "error", "canceled"}
            for where in ({}, {"first": 1}, {"first": 1, "kinds": ("step",)}):
                given: Any = {"workflow": "desk", "key": "a", "limit": 2, **where}
                assert journal(by_index, **given) == journal(View(state, store), **given)


def test_documents_of_a_world_with_several_manifests_do_not_read_the_journal(
    tmp_path: Path,
) -> None:
    """IX-71: also those of records under an earlier manifest, before and after a prune."""
    path = tmp_path / "world"
    init_world(path)
    for version in (1, 2, 3):
        with open_writer(path) as writer:
            writer.apply(puppet.manifest(version=version), mode=PIN)
            asking = [do(f"{key}{version}", puppet.asks("hello")) for key in "abc"]
            list(writer.send([do("a"), *asking, do("bad", b"\xff")]))
        assert in_silence("run", "--until-idle", "--world", path) == 0
        with open_reader(path) as reader:
            intents_now = list(reader.state.intents)
        with open_writer(path) as writer:
            writer.control("cancel", intent=intents_now[-1])
            if version == 2:
                writer.snapshot()
    for _ in range(2):
        with filled(path, tmp_path / "index") as opened:
            assert opened.advance()
            state, store = opened.reader.state, opened.reader.store
            asked: list[tuple[str, dict[str, Any]]] = [
                ("read_cells", {"sort": BY_KEY, "limit": 100, "offset": 0}),
                ("read_intents", {"status": "canceled", "limit": 100, "offset": 0}),
                ("read_intents", {"status": "all", "limit": 100, "offset": 0}),
                *(
                    (operation, {"workflow": PUPPET, "key": key, **more})
                    for key in ("a", "a1", "b2", "bad")
                    for operation, more in (("read_records", {"limit": 9}), ("read_trace", {}))
                ),
            ]
            for operation, query in asked:
                with opened.index.reading() as reader:
                    by_index = View(state, cast("Store", NotRead(store)))
                    use_index(by_index, reader)
                    found = read_document(by_index, operation, query)
                assert found == read_document(View(state, store), operation, query), operation
        prune_world(path)


def test_a_process_that_is_killed_while_it_fills_is_continued(tmp_path: Path) -> None:
    """IX-5: a kill by the system, at any moment."""
    history = History(tmp_path / "world", "sigkill")
    folder = tmp_path / "index"
    history.grow(150)
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from aos.host.folder.reader import open_reader\n"
        "from aos.read.index.world_index import WorldIndex\n"
        "reader = open_reader(Path(sys.argv[1]))\n"
        "index = WorldIndex.open(Path(sys.argv[2]), reader.store, print)\n"
        "print('begun', flush=True)\n"
        "while not index.advance(reader.state, lambda: True): pass\n"
    )
    for delay_s in (0.0, 0.005, 0.02):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(history.path), str(folder)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        time.sleep(delay_s)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    with filled(history.path, folder) as opened:
        assert opened.said == []
        opened.check()
