"""``aos demo``: choose the folder, run the demo, and print its result (spec/cli.md, C-50)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from aos.errors import AosError, BadUsage, Refused, Unavailable
from aos_cli.demo.files import Files, find_files, short
from aos_cli.demo.node_story import NodeStory
from aos_cli.demo.processes import Children, stoppable
from aos_cli.demo.story import Story
from aos_cli.options import number
from aos_cli.output import line, note

ORDERS_MIN: Final = 10


def demo(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            help="New or empty folder for the world, kept afterwards (default: a temporary "
            "folder).",
        ),
    ] = None,
    *,
    orders: Annotated[
        int, typer.Option(metavar="N", parser=number, help="Number of orders to send, at least 10.")
    ] = 1000,
    seed: Annotated[
        int,
        typer.Option(metavar="S", parser=number, help="Seed of the orders and of the failures."),
    ] = 7,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=number,
            help="Run the orders through a node: sent by HTTP, carried out by N `aos worker` "
            "processes. The demo kills a worker, the front and the kernel process.",
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the temporary folder if no DIR is given.")
    ] = False,
) -> int:
    if orders < ORDERS_MIN:
        raise BadUsage(f"--orders: expected {ORDERS_MIN} or more, found {orders}")
    if workers is not None and workers < 1:
        raise BadUsage(f"--workers: expected 1 or more, found {workers}")
    files = find_files()
    with _place(directory, is_kept=keep) as place, stoppable(), Children() as children:
        story = _story(files, place.folder, children, orders=orders, seed=seed, workers=workers)
        story.tell()
        place.is_kept |= bool(story.failed)
    line()
    if story.failed:
        for each in story.failed:
            note(f"aos: demo: {each}", style="red")
        note(f"aos: {len(story.failed)} of {story.checks} checks failed; see {place.folder}")
        return story.exit_code
    line(f"all {story.checks} checks hold", style="bold green")
    line(story.times(), style="dim")
    if place.is_kept:
        line(f"look around: aos inspect world --world {story.world}")
    else:
        line("keep the world to look around in it: aos demo DIR")
    return 0


def _story(
    files: Files, folder: Path, children: Children, *, orders: int, seed: int, workers: int | None
) -> Story:
    if workers is None:
        return Story(files, folder, children, orders=orders, seed=seed)
    return NodeStory(files, folder, children, orders=orders, seed=seed, workers=workers)


@dataclass(slots=True)
class _Place:
    folder: Path
    is_kept: bool


@contextmanager
def _place(directory: Path | None, *, is_kept: bool) -> Iterator[_Place]:
    """The folder of the demo. A temporary one is removed at the end, unless the user asked to keep
    it or an error occurred."""
    if directory is not None:
        yield _Place(short(_taken(directory)), is_kept=True)
        return
    place = _Place(Path(tempfile.mkdtemp(prefix="aos-demo-")), is_kept)
    try:
        yield place
    except AosError:
        place.is_kept = True
        raise
    finally:
        if place.is_kept:
            note(f"kept: {place.folder}")
        else:
            shutil.rmtree(place.folder, ignore_errors=True)


def _taken(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        found = next(directory.iterdir(), None)
    except OSError as error:
        if directory.exists() and not directory.is_dir():
            raise Refused(f"{directory}: expected an empty or new folder, found a file") from error
        raise Unavailable(f"{directory}: the folder cannot be made: {error.strerror}") from error
    if found is not None:
        raise Refused(f"{directory}: expected an empty or new folder, found {found.name!r} in it")
    return directory.resolve()
