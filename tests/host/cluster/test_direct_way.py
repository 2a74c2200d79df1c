"""Nothing but its node writes to the folder of a replicated world (spec/cluster.md, CL-98)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.errors import Refused
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.store.lmdb_store import LOG_PLACE
from aos.store.log.logged_store import LogPlace


def test_a_free_lock_is_no_way_into_a_replicated_world(tmp_path: Path) -> None:
    init_world(tmp_path / "w")
    folder = open_folder(tmp_path / "w")
    with folder.open_store() as store:
        store.meta_put(LOG_PLACE, LogPlace(stream="AOS-1").to_bytes())
        head = store.head()

    with pytest.raises(Refused, match="this world is replicated"):
        folder.open_store()

    with open_reader(tmp_path / "w") as reader:
        assert reader.head() == head
