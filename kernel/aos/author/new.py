"""Create a project from a template: it builds, passes its tests and runs (AU-20 to AU-23)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.author.project import ASSEMBLYSCRIPT, DEFAULT_SOURCE, LANGUAGES, PYTHON, RUST
from aos.author.sdk import SDK, SDK_FOLDERS, copy_sdk
from aos.errors import BadUsage, Refused, Unavailable, either

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
NAME_CHARS_MAX: Final = 40

RESERVED: Final = frozenset({
    *("sys", "aos", "aos-sdk", "aos-sdk-macros", "core", "alloc", "std", "proc-macro"),
    *("test", "tests", "build", "target", "sdk", "node", "env", "assembly", "assemblyscript"),
    *("as", "async", "await", "box", "break", "const", "continue", "crate", "dyn", "else"),
    *("enum", "extern", "false", "fn", "for", "gen", "if", "impl", "in", "let", "loop"),
    *("macro", "match", "mod", "move", "mut", "priv", "pub", "ref", "return", "self"),
    *("static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe"),
    *("unsized", "use", "virtual", "where", "while", "yield", "abstract", "become", "do"),
    *("final", "override", "and", "assert", "class", "def", "del", "elif", "except"),
    *("finally", "from", "global", "import", "is", "lambda", "nonlocal", "not", "or", "pass"),
    *("raise", "with", "effects", "function", "var", "new", "this", "null", "namespace"),
})  # fmt: skip
"""Names with which a crate, a package or a namespace would collide."""

IN_TEXT: Final = "project-name"
IN_CODE: Final = "project_name"
"""The project name in the templates, which are complete projects of that name."""

COMMON: Final = "common"
FLOW: Final = "flow"
"""The template of a flow: files that replace those of ``COMMON``."""
FLOW_IN_RUST: Final = "flow-rust"

LAYERS: Final[Mapping[tuple[str, bool], tuple[str, ...]]] = {
    (RUST, False): (COMMON, RUST),
    (ASSEMBLYSCRIPT, False): (COMMON, ASSEMBLYSCRIPT),
    (RUST, True): (COMMON, RUST, FLOW, FLOW_IN_RUST),
    (PYTHON, True): (COMMON, FLOW, PYTHON),
}
"""(language, whether the workflow is a flow) -> its templates; each replaces files of those before.
Other pairs do not exist."""
HIDDEN: Final = {"gitignore": ".gitignore"}
"""Template files that would affect our own repository under their real name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    folder: Path
    name: str
    lang: str
    files: tuple[str, ...]

    @property
    def workflow(self) -> str:
        """The source file of its workflow."""
        return "src/lib.rs" if self.lang == RUST else DEFAULT_SOURCE[self.lang]


def new_project(folder: Path, *, lang: str, is_flow: bool | None = None) -> NewProject:
    """Create a project in a new or empty folder; the folder's name is the project's.

    Its workflow is a flow, or a function that handles one event at a time (``is_flow`` False). None
    is a function in languages that have both.

    Raises:
        BadUsage: The name or the language is invalid. Nothing has changed.
        Refused: The folder is not empty. Nothing has changed.
        Unavailable: It cannot be written. Its partial files have been removed.
    """
    target = Path(os.path.abspath(folder))  # noqa: PTH100  # resolve() would follow a link
    name = target.name
    check_name(name)
    if lang not in LANGUAGES:
        raise BadUsage("--lang", expected=either(LANGUAGES), actual=repr(lang))
    layers = _layers(lang, is_flow=is_flow)
    _check_free(target)
    try:
        with _unfinished(target) as scratch:
            _fill(scratch, name, lang, layers)
            _put(scratch, target)
            files = sorted(_names(target))
    except OSError as error:
        raise Unavailable(f"{folder}: the project cannot be written: {error.strerror}") from error
    return NewProject(folder=folder, name=name, lang=lang, files=tuple(files))


def _layers(lang: str, *, is_flow: bool | None) -> tuple[str, ...]:
    """The templates of a project. Raises BadUsage if the language has no such workflow."""
    if is_flow is None:
        is_flow = (lang, False) not in LAYERS
    layers = LAYERS.get((lang, is_flow))
    if layers is not None:
        return layers
    option, other = ("--flow", "--reducer") if is_flow else ("--reducer", "--flow")
    languages = [language for language, with_flow in LAYERS if with_flow == is_flow]
    kinds = ("flows", "a reducer") if is_flow else ("reducers", "a flow")
    raise BadUsage(
        option,
        expected=f"--lang {either(languages)}",
        actual=lang,
        hint=f"{lang} has no {kinds[0]}; {other} creates a project with {kinds[1]}",
    )


def check_name(name: str) -> None:
    """Raise BadUsage unless a project can have that name."""
    if NAME.fullmatch(name) is None or len(name) > NAME_CHARS_MAX:
        raise BadUsage(
            "the name of a project",
            expected=f"lower-case letters and digits, beginning with a letter, with single "
            f"hyphens between, at most {NAME_CHARS_MAX}",
            actual=repr(name),
            hint=_suggestion(name),
        )
    if name in RESERVED:
        raise BadUsage(
            f"the name of a project: {name!r} is already in use for something else",
            hint=f"for example {name}-workflow",
        )


def templates() -> Path:
    """The folder of the template projects."""
    return Path(__file__).resolve().parent / "templates"


def _suggestion(name: str) -> str | None:
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[:NAME_CHARS_MAX]
    return f"{plain} would do" if NAME.fullmatch(plain) and plain not in RESERVED else None


def _check_free(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise Refused(f"{target}: expected a new or empty folder, found something else")
    if target.is_dir():
        first_entry = next(target.iterdir(), None)
        if first_entry is not None:
            raise _not_empty(target, first_entry.name)
    if target == Path.cwd():
        raise Refused(
            f"{target}: a project replaces its folder, which is your working directory "
            f"(cd .., then aos new {target.name})"
        )
    if not target.parent.is_dir():
        raise BadUsage(f"{target.parent}: no such folder, so {target.name} cannot be created in it")


def _not_empty(target: Path, entry_text: str) -> Refused:
    return Refused(
        "the folder is not empty",
        location=str(target),
        expected="a new or empty folder",
        actual=f"{entry_text} in it",
    )


@contextlib.contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """A temporary hidden folder next to the future project, so on the same disk."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.unfinished-", dir=target.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _put(scratch: Path, target: Path) -> None:
    """Rename the folder to its final name: after a crash it is complete, or missing.

    Raises:
        Refused: Something has appeared there meanwhile.
    """
    scratch.chmod(0o777 & ~_umask())
    try:
        scratch.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise _not_empty(target, "something") from error
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _fill(folder: Path, name: str, lang: str, layers: tuple[str, ...]) -> None:
    """Write the templates, a file of a later one in place of an earlier one's, and the SDK."""
    for template in (templates() / layer for layer in layers):
        for source in sorted(template.rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                _write(source, folder / _renamed(source.relative_to(template), name), name)
    if lang in SDK_FOLDERS:
        copy_sdk(lang, folder / SDK)


def _renamed(path: Path, name: str) -> Path:
    return Path(*(_filled(HIDDEN.get(part, part), name) for part in path.parts))


def _filled(text: str, name: str) -> str:
    return text.replace(IN_TEXT, name).replace(IN_CODE, name.replace("-", "_"))


def _write(source: Path, file: Path, name: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_filled(source.read_text("utf-8"), name), "utf-8")


def _names(folder: Path) -> Iterator[str]:
    for file in folder.rglob("*"):
        if file.is_file():
            yield file.relative_to(folder).as_posix()
