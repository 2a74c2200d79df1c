"""Count the words that mark the old style of our prose, and list their places.

python -m tests.style_marks                    every find, as file:line: mark: sentence
python -m tests.style_marks spec kernel/aos    finds in these folders or files only
python -m tests.style_marks --table            found and allowed, by area

Prose is Markdown without code, docstrings, comments, help, messages, and the names of tests.
``tests/test_style_marks.py`` compares the counts with their bound.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
WORDS_FOR_ONE: Final = 10_000
"""Each mark may be found once in so many words."""

SKIPPED_FOLDERS: Final = frozenset(
    {"vendor", "target", "node_modules", "__pycache__", "build", "dist"}
)
SKIPPED_FILES: Final = {
    "tests/style_marks.py": "it names the marks",
    "tests/test_style_marks.py": "its examples are in the old style",
}
FOLDERS: Final = ("benchmarks", "cli", "kernel", "manifests", "modules", "spec", "tests")

EXEMPT: Final[Mapping[str, str]] = {
    "state null deletes the cell, and": "words of a fault (K-33)",
}
"""Quoted and hashed texts: a part of the sentence that is exempt, and the reason."""

WORDS: Final = {
    "beside": re.compile(r"\bbeside\b", re.IGNORECASE),
    "stands": re.compile(r"(?<![\w-])(?:stand|stands|stood|standing)(?![\w-])", re.IGNORECASE),
    "nobody": re.compile(r"\b(?:nobody|somebody)\b", re.IGNORECASE),
    "goes on": re.compile(r"\b(?:go|goes|going|went|gone) on\b", re.IGNORECASE),
    "anew": re.compile(r"\banew\b", re.IGNORECASE),
}
CLAUSE: Final = "what/who"
MARKS: Final = (*WORDS, CLAUSE)

_VERB: Final = (
    r"(?:[a-z]+(?:s|ed)|am|are|be|can|came|could|did|do|does|fell|goes|got|had|has|have|is|"
    r"may|might|must|never|no\s+longer|only|ran|shall|should|was|went|were|will|would|wrote)\b"
)
_CLAUSES: Final = (
    # At the start of a sentence: any clause of this kind. Anywhere: whoever, and that which.
    re.compile(r"^\W*(?:what|whatever|who)\s+(?=[a-z])(?!(?:ever|to)\b)", re.IGNORECASE),
    re.compile(r"\bwhoever\b|\b(?<!so )that which\b", re.IGNORECASE),
    # Within a sentence, where a clause begins: after punctuation, or after a word that joins.
    re.compile(rf"(?:[;:(]|\s[—-])\s*(?:what|whatever|who)\s+{_VERB}", re.IGNORECASE),
    re.compile(
        rf"(?:,|\b(?:and|but|so|because|that|then|where|while|if|when))\s+what\s+{_VERB}",
        re.IGNORECASE,
    ),
    re.compile(rf"\b(?:but|so|because|then)\s+who\s+{_VERB}", re.IGNORECASE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One piece of prose: it begins at ``line`` of its file; code in it is replaced by ``x``."""

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    path: str
    line: int
    mark: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.mark}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Counted:
    """Words and finds of one area."""

    words: int
    found: Counter[str]

    def bound(self) -> int:
        """The bound for each mark: one in 10,000 words, rounded up."""
        return -(-self.words // WORDS_FOR_ONE)


# --- finding marks in text


_SENTENCE: Final = re.compile(r".+?(?:[.!?][)\"'*_]*(?=\s)|\n\s*\n|$)", re.DOTALL)


# One of these is in every mark: most texts are read no further.
_ANY: Final = re.compile(
    r"\b(?:beside|st(?:an|oo)d|(?:no|some)body|on\b|anew|what|who|that which)", re.IGNORECASE
)


def marks_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Each mark as its offset, its name and the sentence that it is in."""
    if _ANY.search(text) is None:
        return
    for sentence in _SENTENCE.finditer(text):
        if _ANY.search(sentence[0]) is None:
            continue
        words = " ".join(sentence[0].split())
        if any(each in words for each in EXEMPT):
            continue
        for mark, pattern in WORDS.items():
            for found in pattern.finditer(sentence[0]):
                yield sentence.start() + found.start(), mark, words
        if not words.rstrip(")\"'*_`").endswith("?"):
            places = {found.end() for each in _CLAUSES for found in each.finditer(sentence[0])}
            for place in sorted(places):
                yield sentence.start() + place - 1, CLAUSE, words


def words_in(text: str) -> int:
    return len(re.findall(r"[A-Za-z][A-Za-z'-]*", text))


# --- prose in files


def markdown(source: str) -> Iterator[Text]:
    """Paragraphs, list items, headings and table cells; no code."""
    block: list[str] = []
    start, fenced, code = 1, False, False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""  # noqa: PLW2901
        elif fenced:
            continue
        indented = line.startswith("    ") and (code or not block)
        code = indented or (code and not line.strip())
        starts = re.match(r"\s*(?:[-*] |\d+\. |#|\|)", line) is not None
        if block and (starts or indented or not line.strip()):
            yield Text(line=start, text=_plain("\n".join(block)))
            block = []
        if indented or not line.strip():
            continue
        if line.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line):
                if cell.strip(" -:"):
                    yield Text(line=number, text=_plain(cell.strip()))
            continue
        if not block:
            start = number
        block.append(re.sub(r"^\s*(?:[-*] |\d+\. |#+ )", "", line))


def _plain(text: str) -> str:
    """Markdown without inline code, addresses of links and emphasis; line breaks stay."""
    text = re.sub(r"``?[^`]+``?", lambda code: "x" + "\n" * code[0].count("\n"), text)
    text = re.sub(r"\]\([^)\s]*\)", "", text)
    return text.replace("**", "").replace("[", "")


_PYTHON: Final = re.compile(
    r'"{3}(?:\\.|[^\\])*?"{3}|\'{3}(?:\\.|[^\\])*?\'{3}|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|#[^\n]*',
    re.DOTALL,
)
"""Strings, so that they are passed over, and comments."""


def python(source: str) -> Iterator[Text]:
    """Docstrings, comments, strings of three words and more, and the names of tests."""
    found = [each for each in _PYTHON.finditer(source) if each[0].startswith("#")]
    yield from _comment_blocks(source, ((each.start(), each[0]) for each in found))
    lines = source.splitlines()
    in_parts = set[int]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.JoinedStr(values=values):
                in_parts |= {id(each) for each in values}
                parts = (each.value if isinstance(each, ast.Constant) else "x" for each in values)
                yield from _literal("".join(map(str, parts)), node, lines)
            case ast.Constant(value=str(text)) if id(node) not in in_parts:
                yield from _literal(text, node, lines)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith(
                "test_"
            ):
                yield Text(line=node.lineno, text=name.removeprefix("test_").replace("_", " "))
            case _:
                pass


def _literal(text: str, node: ast.expr, lines: Sequence[str]) -> Iterator[Text]:
    if words_in(text) < 3 or " " not in text.strip():
        return
    line = node.lineno
    source = lines[node.lineno - 1 : node.end_lineno]
    if len(source) > 1 and text.count("\n") < len(source) - 1:
        # Literals joined over several lines: one word at a time says which line a find is on.
        yield Text(line=line, text=_spread(text, source))
    else:
        yield Text(line=line, text=_plain(text))


def _spread(text: str, source: Sequence[str]) -> str:
    """``text`` with a line break wherever its source has one, so that lines can be counted."""
    text = _plain(text).replace("\n", " ")
    done, at = list[str](), 0
    for line in source[1:]:
        first = re.search(r"[\"'](\s*[A-Za-z]{2,}[^\"'{]{0,12})", line)
        found = text.find(first[1], at) if first else -1
        if found < 0:
            done.append("\n")
            continue
        done += (text[at:found], "\n")
        at = found
    return "".join(done) + text[at:]


def c_like(source: str) -> Iterator[Text]:
    """Comments of Rust, TypeScript and AssemblyScript; strings are passed over."""
    pattern = re.compile(
        r'"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/', re.DOTALL
    )
    found = [each for each in pattern.finditer(source) if each[0].startswith("/")]
    yield from _comment_blocks(source, ((each.start(), each[0]) for each in found))


def _comment_blocks(source: str, comments: Iterable[tuple[int, str]]) -> Iterator[Text]:
    """Comments; lines of comment one below the other are one text."""
    block: list[str] = []
    start = last = 0
    alone = False
    for offset, comment in comments:
        row = source.count("\n", 0, offset) + 1
        text = "\n".join(
            re.sub(r"^\s*(?:/{2,}!?|/\*+!?|\*+/?|;+|#+!?)|\*/$", "", line).strip()
            for line in comment.splitlines()
        )
        whole_line = not source[source.rfind("\n", 0, offset) + 1 : offset].strip()
        if block and (row != last + 1 or not (alone and whole_line)):
            yield Text(line=start, text=_plain("\n".join(block)))
            block = []
        if not block:
            start = row
        block.append(text)
        last, alone = row + comment.count("\n"), whole_line
    if block:
        yield Text(line=start, text=_plain("\n".join(block)))


def hashed(source: str) -> Iterator[Text]:
    """Comments of files in which ``#`` begins them, and what a Makefile prints."""
    found = re.finditer(r"(?<![^\s])#[^\n]*|(?<=@echo \")[^\"]*", source)
    yield from _comment_blocks(source, ((each.start(), each[0]) for each in found))


def wat(source: str) -> Iterator[Text]:
    found = re.finditer(r";;[^\n]*", source)
    yield from _comment_blocks(source, ((each.start(), each[0]) for each in found))


def schema(source: str) -> Iterator[Text]:
    """Titles, descriptions and comments of JSON documents."""
    for found in re.finditer(r'"(?:title|description|\$comment)": *"((?:\\.|[^"\\])*)"', source):
        yield Text(line=source.count("\n", 0, found.start()) + 1, text=found[1])


READERS: Final[Mapping[str, Callable[[str], Iterator[Text]]]] = {
    ".md": markdown,
    ".py": python,
    ".rs": c_like,
    ".ts": c_like,
    ".mjs": c_like,
    ".wat": wat,
    ".toml": hashed,
    ".json": schema,
}


def reader_of(path: Path) -> Callable[[str], Iterator[Text]] | None:
    if path.suffix:
        return READERS.get(path.suffix)
    with path.open("rb") as file:
        first = file.readline(80)
    if first.startswith(b"#!") and b"python" in first:
        return python
    return hashed if first.startswith(b"#!") or path.name == "Makefile" else None


def files() -> Iterator[str]:
    """Every file of ours with prose, as a path from the root."""
    names = [path.name for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        for where, below, inside in os.walk(ROOT / folder):
            below[:] = sorted(set(below) - SKIPPED_FOLDERS)
            names += [str((Path(where) / name).relative_to(ROOT)) for name in inside]
    for name in sorted(names):
        if name not in SKIPPED_FILES and reader_of(ROOT / name) is not None:
            yield name


def area_of(name: str) -> str:
    """A package of the kernel, a folder of modules/, a top folder, or a file of the root."""
    parts = name.split("/")
    if len(parts) == 1:
        return name
    if name.startswith("kernel/aos/"):
        return "/".join(parts[:3]) if len(parts) > 3 else "kernel/aos"
    return "/".join(parts[:2]) if parts[0] == "modules" and len(parts) > 2 else parts[0]


# --- the whole


def finds_in(name: str) -> tuple[int, list[Find]]:
    """The words of one file, and the marks in them."""
    reader = reader_of(ROOT / name)
    assert reader is not None
    words, finds = 0, list[Find]()
    for piece in reader((ROOT / name).read_text("utf-8")):
        words += words_in(piece.text)
        for offset, mark, sentence in marks_in(piece.text):
            line = piece.line + piece.text.count("\n", 0, offset)
            finds.append(Find(path=name, line=line, mark=mark, sentence=sentence))
    return words, sorted(finds, key=lambda find: find.line)


def counted(names: Iterable[str]) -> tuple[dict[str, Counted], list[Find]]:
    areas, every = dict[str, Counted](), list[Find]()
    for name in names:
        words, finds = finds_in(name)
        area = areas.get(area_of(name), Counted(0, Counter()))
        found = area.found + Counter(find.mark for find in finds)
        areas[area_of(name)] = Counted(area.words + words, found)
        every += finds
    return areas, every


def table(areas: Mapping[str, Counted]) -> str:
    """Found and allowed for each area and mark."""
    lines = [f"{'area':28}{'words':>8}" + "".join(f"{mark:>12}" for mark in MARKS)]
    for name, area in sorted(areas.items()):
        cells = (f"{area.found[mark]}/{area.bound()}" for mark in MARKS)
        lines.append(f"{name:28}{area.words:8}" + "".join(f"{cell:>12}" for cell in cells))
    words = sum(area.words for area in areas.values())
    found = sum((area.found for area in areas.values()), Counter[str]())
    rates = "".join(f"{found[mark] * WORDS_FOR_ONE / words:12.2f}" for mark in MARKS)
    return "\n".join([*lines, f"{'for 10,000 words':28}{words:8}{rates}"])


def main(arguments: Sequence[str]) -> int:
    options = {each for each in arguments if each.startswith("--")}
    wanted = tuple(each.rstrip("/") for each in arguments if each not in options)
    names = [
        name
        for name in files()
        if not wanted or any(name == each or name.startswith(f"{each}/") for each in wanted)
    ]
    areas, finds = counted(names)
    if not areas:
        sys.stderr.write(f"no prose found in {', '.join(wanted)}\n")
        return 2
    if not options:
        sys.stdout.writelines(f"{find}\n" for find in finds)
    sys.stdout.write(f"{table(areas)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
