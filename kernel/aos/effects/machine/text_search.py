"""``sys/host.fs.grep@1``: the lines of text files that match a pattern (AG-113, AG-114)."""

from __future__ import annotations

import asyncio
import stat
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from aos.effects.machine.contained_paths import (
    ITSELF,
    ContainedFolder,
    FilePlace,
    Parts,
)
from aos.effects.machine.file_access import FILE_BYTES_MAX, read_part
from aos.effects.machine.folder_walk import (
    PATTERN_CHARS_MAX,
    NamePattern,
    WalkBudget,
    most_of,
    opened_folder,
    walk_below,
)
from aos.effects.machine.host_outputs import (
    ERROR,
    NOT_FOUND,
    OK,
    TIMEOUT,
    Declined,
    HostOutput,
    mode_of,
    output,
    shown_name,
)
from aos.effects.machine.line_matcher import HEAD

SEARCH_S: Final = 30.0
SEARCHED_BYTES_MAX: Final = 256 * 1024 * 1024
OUTPUT_BYTES_MAX: Final = 4 * 1024 * 1024
MATCHER: Final = Path(__file__).with_name("line_matcher.py")
BINARY_LOOK_BYTES: Final = 8192
"""A file with a NUL byte among so many first ones is not searched."""

LINE_BYTES_MAX: Final = 64 * 1024


async def search_text(
    root: ContainedFolder, workdir: Parts, params: dict[str, Any]
) -> tuple[dict[str, Any], HostOutput]:
    """The receipt without its matches, and the matches: ``path:line number:line``, by path.

    Raises:
        Declined: ``invalid_pattern``, or ``timeout`` if a pattern takes longer than 30 s.
    """
    mode, results_max = mode_of(params), most_of(params)
    pattern = params["pattern"]
    if not pattern or len(pattern) > PATTERN_CHARS_MAX or "\0" in pattern:
        raise _invalid_pattern(f"expected 1 to {PATTERN_CHARS_MAX} characters without NUL")
    name_pattern = None if not params.get("glob_filter") else NamePattern(params["glob_filter"])
    search = _Search(results_max)
    try:
        async with asyncio.timeout(SEARCH_S):
            async with _matcher(
                pattern, ignores_case=bool(params.get("case_insensitive"))
            ) as matcher:
                files = _files(root, workdir, params.get("path"), name_pattern, search)
                while (file := await asyncio.to_thread(next, files, None)) is not None:
                    if not await search.search_file(matcher, *file):
                        break
                await asyncio.to_thread(files.close)
    except TimeoutError:
        raise Declined(
            TIMEOUT, "timeout", f"the search took longer than {SEARCH_S:g} s, and was ended"
        ) from None
    count, shown_count = search.count, len(search.lines)
    value = {
        "status": OK,
        "match_count": count,
        "truncated": shown_count < count or search.is_cut or search.budget.is_spent,
        "summary_text": f"{count} {'match' if count == 1 else 'matches'}",
    }
    return value, output(b"\n".join(search.lines), mode)


class _Search:
    def __init__(self, results_max: int) -> None:
        self._results_max = results_max
        self.lines: list[bytes] = []
        self._size = 0
        self._searched = 0
        self.count = 0
        self.is_cut = False
        self.budget = WalkBudget()

    async def search_file(self, matcher: Process, name: str, data: bytes) -> bool:
        """Search one file; False once enough was found or read."""
        assert matcher.stdin is not None
        assert matcher.stdout is not None
        self._searched += len(data)
        encoded = name.encode()
        sending = asyncio.ensure_future(
            _send(matcher.stdin, HEAD.pack(len(encoded), len(data)) + encoded + data)
        )
        try:
            while (line := (await _line(matcher.stdout))[:-1]) != b"":
                self.count += 1
                if len(self.lines) < self._results_max and self._size < OUTPUT_BYTES_MAX:
                    self.lines.append(line)
                    self._size += len(line) + 1
            await sending
        finally:
            sending.cancel()
        self.is_cut = self.count > self._results_max or self._searched > SEARCHED_BYTES_MAX
        return not self.is_cut


async def _send(stream: asyncio.StreamWriter, data: bytes) -> None:
    stream.write(data)
    with suppress(ConnectionError):
        await stream.drain()


async def _line(stream: asyncio.StreamReader) -> bytes:
    line = await stream.readline()
    if not line.endswith(b"\n"):
        raise _invalid_pattern("the pattern needs more memory than a search may have")
    return line


@asynccontextmanager
async def _matcher(pattern: str, *, ignores_case: bool) -> AsyncIterator[Process]:
    """A process that matches, killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(MATCHER),
        pattern,
        "i" if ignores_case else "-",
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={},
        limit=LINE_BYTES_MAX,
        process_group=0,  # the terminal's Ctrl-C is for the executor
    )
    try:
        assert process.stdout is not None
        answer = (await _line(process.stdout)).decode().rstrip("\n")
        if answer != "ready":
            raise _invalid_pattern(answer.removeprefix("invalid "))
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())


def _files(
    root: ContainedFolder,
    workdir: Parts,
    path: str | None,
    name_pattern: NamePattern | None,
    search: _Search,
) -> Generator[tuple[str, bytes], None, None]:
    """The shown names and the bytes of the text files at or below ``path``."""
    with root.resolve(workdir, path or ITSELF) as file_place:
        if file_place.stat_result is None:
            raise Declined(NOT_FOUND, "not_found", f"{path}: there is no such file or folder")
        if not stat.S_ISDIR(file_place.stat_result.st_mode):
            if (data := _text_of(file_place)) is not None:
                yield shown_name(file_place.name), data
            return
    with opened_folder(root, workdir, path) as folder:
        for file in walk_below(folder, search.budget):
            if not stat.S_ISREG(file.stat_result.st_mode) or not _is_chosen(
                name_pattern, file.parts
            ):
                continue
            name = file.parts[-1]
            inner = FilePlace(
                folder=file.folder, name=name, parts=file.parts, stat_result=file.stat_result
            )
            data = _text_of(inner)
            if data is not None:
                yield "/".join(map(shown_name, file.parts)), data


def _is_chosen(name_pattern: NamePattern | None, parts: Parts) -> bool:
    """A filter without a slash is for the name alone."""
    return name_pattern is None or name_pattern.matches(
        parts if name_pattern.deepest > 1 else parts[-1:]
    )


def _text_of(file_place: FilePlace) -> bytes | None:
    """None for a file that is not searched: binary, too large or not readable."""
    assert file_place.stat_result is not None
    if file_place.stat_result.st_size > FILE_BYTES_MAX:
        return None
    try:
        data, _ = read_part(file_place, file_place.name, 0, FILE_BYTES_MAX)
    except (OSError, Declined):
        return None
    return None if b"\0" in data[:BINARY_LOOK_BYTES] else data


def _invalid_pattern(reason: str) -> Declined:
    return Declined(ERROR, "invalid_pattern", f"pattern: {reason}")
