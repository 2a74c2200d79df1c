"""The jobs around the lives of a world: make it, and judge it when it is over."""

from __future__ import annotations

import sys
from pathlib import Path

from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.transfer.exporting import export_world
from aos.prove.replay.replay import replay
from aos.prove.verify.roots import recorded_snapshots
from aos.sandbox.cache import standard_cache
from aos.sandbox.config import REPLAY_STACK_BYTES, WASMTIME
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos_cli.main import run_command


def make(*, world: str, manifest: str) -> int:
    """Create a world, and apply a manifest to it."""
    init_world(Path(world))
    with open_writer(Path(world)) as writer:
        writer.apply(load_manifest_files(Path(manifest)), mode="strict")
    return 0


def judge(*, world: str, bundle: str) -> int:
    """Export a world into a file, and replay it as ``aos replay`` does.

    The code of its modules comes from the cache, which ``aos replay`` does not use: the matrix runs
    that command itself on some of its worlds.
    """
    export_world(Path(world), Path(bundle), force=True)
    with open_folder(Path(world)).open_store(readonly=True) as store:
        head = store.head()
        assert head is not None

        def run() -> None:
            cache = standard_cache(_note, outside=Path(world))
            sandbox = Sandbox(store.blob, stack_bytes=REPLAY_STACK_BYTES, cache=cache)
            try:
                replay(
                    store.frames(1, head.seq),
                    store.blob,
                    sandbox,
                    head=head,
                    wasmtime=WASMTIME,
                    snapshots=dict(recorded_snapshots(store.frames(1, head.seq))),
                )
            finally:
                sandbox.close()

        run_on_big_stack(run)
    return 0


def command(*, words: list[str]) -> int:
    """Run a command of ``aos``."""
    return run_command(words)


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
