"""``grep``, ``glob`` and ``list_dir`` (AG-113 to AG-116)."""

from __future__ import annotations

import os
import time
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.effects.machine import folder_walk, text_search
from aos.effects.machine.folder_walk import NamePattern, WalkBudget
from aos.effects.machine.host_outputs import Declined
from tests.effects.machine.bench import Bench, status


def lines(bench: Bench, found: Any, field: str) -> list[str]:
    assert status(found) == ("ok", None), found
    return bench.text(found[field]).splitlines()


@pytest.fixture
def tree(bench: Bench) -> Bench:
    for path, text in {
        "b.py": "import os\nx = 1\n",
        "a.py": "x = 2\n",
        "src/c.py": "X = 3\r\n",
        "src/deep/d.txt": "no\nx\n",
        "src/.hidden": "x\n",
        "é.txt": "x é\n",
    }.items():
        (bench.root / path).parent.mkdir(parents=True, exist_ok=True)
        (bench.root / path).write_bytes(text.encode())
    (bench.root / "binary").write_bytes(b"x\0x")
    (bench.root / "link").symlink_to("src")
    (bench.root / "file-link").symlink_to("a.py")
    return bench


def test_matching_lines_have_path_and_number(tree: Bench) -> None:
    """AG-113: in byte order of the paths; no binary files, no links."""
    found = tree.one("fs.grep", pattern="x")

    assert lines(tree, found, "matches") == [
        "a.py:1:x = 2",
        "b.py:2:x = 1",
        "src/.hidden:1:x",
        "src/deep/d.txt:2:x",
        "é.txt:1:x é",
    ]
    assert (found["match_count"], found["truncated"], found["summary_text"]) == (
        5,
        False,
        "5 matches",
    )


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (
            {"pattern": "x", "case_insensitive": True, "path": "src"},
            [".hidden:1:x", "c.py:1:X = 3", "deep/d.txt:2:x"],
        ),
        ({"pattern": r"^x = \d$", "glob_filter": "*.py"}, ["a.py:1:x = 2", "b.py:2:x = 1"]),
        ({"pattern": "X", "glob_filter": "src/*.py"}, ["src/c.py:1:X = 3"]),
        ({"pattern": "x", "glob_filter": "src/**"}, ["src/.hidden:1:x", "src/deep/d.txt:2:x"]),
        ({"pattern": "x", "path": "src/deep/d.txt"}, ["d.txt:2:x"]),
        ({"pattern": "x", "path": "file-link"}, ["a.py:1:x = 2"]),
        ({"pattern": "3$"}, ["src/c.py:1:X = 3"]),
        ({"pattern": "absent"}, []),
    ],
)
def test_a_search_is_narrowed(tree: Bench, params: dict[str, Any], expected: list[str]) -> None:
    """AG-113."""
    assert lines(tree, tree.one("fs.grep", **params), "matches") == expected


@pytest.mark.parametrize("pattern", ["(", "", "a\0", "x" * 1001, "a{99999999999999999999}"])
def test_an_invalid_pattern_is_declined(tree: Bench, pattern: str) -> None:
    """AG-114."""
    assert status(tree.one("fs.grep", pattern=pattern)) == ("error", "invalid_pattern")


def test_a_pattern_that_takes_for_ever_is_ended(
    tree: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-114."""
    monkeypatch.setattr(text_search, "SEARCH_S", 0.4)
    (tree.root / "long").write_text("a" * 60 + "\n")

    receipt = tree.one("fs.grep", pattern="^(a+)+$b|(a|aa)+$c|(a*)*d")

    assert status(receipt) == ("timeout", "timeout")


def test_a_pattern_that_needs_too_much_memory_is_declined(tree: Bench) -> None:
    """AG-114."""
    (tree.root / "long").write_text("ab" * 7_500_000)

    found = tree.one("fs.grep", pattern="^(?:(a)|b)*?$")

    assert status(found) == ("error", "invalid_pattern")
    assert "memory" in found["summary_text"]


def test_a_search_has_a_limit_of_results_and_of_text(tree: Bench) -> None:
    """AG-113, AG-67."""
    (tree.root / "many").write_text("y\n" * 20_000 + "y" * 10_000 + "\n")

    few = tree.one("fs.grep", pattern="y")
    most = tree.one("fs.grep", pattern="y", max_results=10_000, output_mode="blob")
    last = tree.one("fs.grep", pattern="y{9999}")

    assert (len(lines(tree, few, "matches")), few["truncated"]) == (100, True)
    assert (len(lines(tree, most, "matches")), most["truncated"]) == (10_000, True)
    assert most["matches"]["$tag"] == "blob"
    (line,) = lines(tree, last, "matches")
    assert line == f"many:20001:{'y' * 500}…"
    for number in (0, 10_001):
        assert status(tree.one("fs.grep", pattern="y", max_results=number)) == (
            "error",
            "invalid_params",
        )


def test_a_search_stops_after_so_many_bytes(tree: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """AG-114."""
    monkeypatch.setattr(text_search, "SEARCHED_BYTES_MAX", 10)

    found = tree.one("fs.grep", pattern="x")

    assert found["truncated"] is True
    assert lines(tree, found, "matches") == ["a.py:1:x = 2", "b.py:2:x = 1"]


def test_odd_names_are_shown_in_one_line(bench: Bench) -> None:
    """AG-115."""
    for name in (b"a\nb", b"\xff", b"t\tt", b"back\\slash"):
        with open(os.path.join(os.fsencode(bench.root), name), "wb") as file:  # noqa: PTH118, PTH123
            file.write(b"x\n")

    assert lines(bench, bench.one("fs.list_dir"), "entries") == [
        "a\\nb",
        "back\\slash",
        "t\\tt",
        "\\xff",
    ]
    found = lines(bench, bench.one("fs.grep", pattern="x"), "matches")
    assert found == ["a\\nb:1:x", "back\\slash:1:x", "t\\tt:1:x", "\\xff:1:x"]


def test_a_folder_is_listed_in_byte_order(tree: Bench) -> None:
    """AG-116: folders end with a slash, links do not."""
    found = tree.one("fs.list_dir", max_results=5)

    assert lines(tree, found, "entries") == ["a.py", "b.py", "binary", "file-link", "link"]
    assert (found["count"], found["truncated"], found["summary_text"]) == (7, True, "7 entries")
    assert lines(tree, tree.one("fs.list_dir", path="link"), "entries") == [
        ".hidden",
        "c.py",
        "deep/",
    ]
    assert status(tree.one("fs.list_dir", path="a.py")) == ("error", "not_a_directory")
    assert status(tree.one("fs.list_dir", path="none")) == ("not_found", "not_found")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["a.py", "b.py"]),
        ("**/*.py", ["a.py", "b.py", "src/c.py"]),
        ("src/**", ["src/", "src/.hidden", "src/c.py", "src/deep/", "src/deep/d.txt"]),
        ("**/deep/**/*", ["src/deep/d.txt"]),
        ("*/*.py", ["src/c.py"]),
        ("./src/[c-d].p?", ["src/c.py"]),
        ("**/[!a-c].txt", ["src/deep/d.txt", "é.txt"]),
        ("src", ["src/"]),
        ("none", []),
    ],
)
def test_a_glob_finds_paths(tree: Bench, pattern: str, expected: list[str]) -> None:
    """AG-115: no link is followed."""
    assert lines(tree, tree.one("fs.glob", pattern=pattern), "paths") == expected


@pytest.mark.parametrize("pattern", ["", "/", "../*", "src/../*", "x" * 1001, "a\0"])
def test_an_invalid_glob_is_declined(tree: Bench, pattern: str) -> None:
    """AG-115."""
    assert status(tree.one("fs.glob", pattern=pattern)) == ("error", "invalid_pattern")
    if pattern:  # an empty filter is none
        filtered = tree.one("fs.grep", pattern="x", glob_filter=pattern)
        assert status(filtered) == ("error", "invalid_pattern")


def test_a_folder_of_ten_thousand_files(bench: Bench) -> None:
    """AG-115, AG-116."""
    for number in range(10_000):
        (bench.root / f"{number:05}").touch()

    listed = bench.one("fs.list_dir", max_results=10_000)
    globbed = bench.one("fs.glob", pattern="*9")

    assert listed["count"] == 10_000
    assert lines(bench, listed, "entries") == [f"{number:05}" for number in range(10_000)]
    assert (globbed["count"], globbed["truncated"]) == (1000, True)
    assert lines(bench, globbed, "paths") == [f"{number:05}" for number in range(9, 1000, 10)]


def test_a_walk_stops_after_so_many_names(tree: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """AG-115."""
    monkeypatch.setattr(folder_walk, "WalkBudget", lambda: WalkBudget(entries=3))

    found = tree.one("fs.glob", pattern="**")

    assert found["truncated"] is True
    assert found["count"] <= 4
    monkeypatch.setattr(folder_walk, "WalkBudget", lambda: WalkBudget(deadline=0))
    late = tree.one("fs.list_dir")
    assert (status(late), late["truncated"]) == (("ok", None), True)


PARTS = st.lists(st.sampled_from(["a", "b", "ab", ".c"]), min_size=1, max_size=5).map(tuple)
NAMES = st.lists(st.sampled_from(["**", "*", "a", "a*", "?", "[ab]", "*b"]), min_size=1, max_size=5)


@given(PARTS, NAMES)
def test_a_pattern_matches_as_its_definition_says(parts: tuple[str, ...], names: list[str]) -> None:
    """AG-115: against the naive recursion."""

    def matches(rest: tuple[str, ...], wanted: list[str]) -> bool:
        if not wanted:
            return not rest
        if wanted[0] == "**":
            return any(matches(rest[at:], wanted[1:]) for at in range(len(rest) + 1))
        return bool(rest) and fnmatchcase(rest[0], wanted[0]) and matches(rest[1:], wanted[1:])

    assert NamePattern("/".join(names)).matches(parts) == matches(parts, names)


def test_a_hostile_glob_is_quick() -> None:
    """AG-115."""
    begun = time.thread_time()
    pattern = NamePattern("/".join(["**"] * 300) + "/x")

    assert not pattern.matches(("a",) * 100)
    assert not NamePattern("*a" * 400).matches(("a" * 255,))
    assert time.thread_time() - begun < 2
    with pytest.raises(Declined):
        NamePattern("**/" * 400)
