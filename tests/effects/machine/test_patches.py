"""``sys/host.fs.apply_patch@1`` (AG-118 to AG-121)."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.effects.machine import file_access, file_edits
from aos.effects.machine.host_outputs import Declined
from aos.effects.machine.patch_text import FitBudget, parse_patch, patched
from tests.effects.machine.bench import Bench, inline, status
from tests.tools import missing

INTENT = "blake3:" + 64 * "c"

PROGRAM = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 1\n"


def v4a(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def apply(bench: Bench, patch: str, **params: Any) -> Any:
    return bench.one("fs.apply_patch", patch=inline(patch), **params)


def files(bench: Bench) -> dict[str, str]:
    return {
        str(each.relative_to(bench.root)): each.read_text()
        for each in sorted(bench.root.rglob("*"))
        if each.is_file()
    }


def test_a_patch_of_every_kind_of_change(bench: Bench) -> None:
    """AG-119."""
    (bench.root / "a.py").write_text(PROGRAM)
    (bench.root / "gone").write_text("x\n")
    (bench.root / "old").write_text("1\n2\n3\n")
    patch = v4a(
        "*** Add File: new/deep/file.txt",
        "+first",
        "+",
        "*** Update File: a.py",
        "@@ def two():",
        "-    return 1",
        "+    return 2",
        "*** Delete File: gone",
        "*** Update File: old",
        "*** Move to: moved/new",
        "@@",
        " 1",
        "-2",
        "+two",
        " 3",
    )

    found = apply(bench, patch)

    assert status(found) == ("ok", None)
    assert found["ops"] == {"add": 1, "update": 1, "delete": 1, "move": 1}
    assert found["changed_paths"] == ["a.py", "gone", "moved/new", "new/deep/file.txt", "old"]
    assert (found["files_changed"], found["summary_text"]) == (5, "changed 5 files")
    assert files(bench) == {
        "a.py": PROGRAM[:-2] + "2\n",
        "moved/new": "1\ntwo\n3\n",
        "new/deep/file.txt": "first\n\n",
    }


def test_a_dry_run_changes_nothing(bench: Bench) -> None:
    """AG-118."""
    (bench.root / "f").write_text("a\n")
    patch = v4a("*** Update File: f", "-a", "+b", "*** Add File: g", "+x")

    found = apply(bench, patch, dry_run=True)

    assert (status(found), found["changed_paths"]) == (("ok", None), ["f", "g"])
    assert found["summary_text"] == "would change 2 files"
    assert files(bench) == {"f": "a\n"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["*** Update File: f", "-z", "+b"], ("error", "patch_does_not_apply")),
        (["*** Update File: f", "@@ none", "-a", "+b"], ("error", "patch_does_not_apply")),
        (["*** Update File: none", "-a", "+b"], ("not_found", "not_found")),
        (["*** Delete File: none"], ("not_found", "not_found")),
        (["*** Add File: f", "+x"], ("already_exists", "already_exists")),
        (
            ["*** Update File: f", "*** Move to: g", "-a", "+b"],
            ("already_exists", "already_exists"),
        ),
        (["*** Update File: d", "-a", "+b"], ("error", "is_directory")),
        (["*** Add File: f/x", "+x"], ("error", "not_a_directory")),
        (["*** Delete File: ../outside"], ("forbidden", "path_outside")),
        (["*** Update File: f"], ("error", "patch_invalid")),
        (["*** Update File: f", "a"], ("error", "patch_invalid")),
        (["*** Rename File: f"], ("error", "patch_invalid")),
        (["nonsense"], ("error", "patch_invalid")),
        ([], ("error", "patch_invalid")),
    ],
)
def test_a_patch_that_does_not_fit_changes_nothing(
    bench: Bench, lines: list[str], expected: tuple[str, str]
) -> None:
    """AG-118: the changes before it are not made either."""
    (bench.root / "d").mkdir()
    (bench.root / "f").write_text("a\n")
    (bench.root / "g").write_text("g\n")
    before = files(bench)
    good = ["*** Add File: h", "+x", "*** Update File: g", "-g", "+G"] if lines else []

    found = apply(bench, v4a(*good, *lines))

    assert status(found) == expected
    assert found["errors"] == [found["summary_text"]]
    assert files(bench) == before


def test_a_write_that_fails_undoes_the_changes_before_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-118."""
    for name in "abc":
        (bench.root / name).write_text(f"{name}\n")
    patch = v4a(
        "*** Update File: a", "-a", "+A", "*** Delete File: b", "*** Update File: c", "-c", "+C"
    )
    before = files(bench)
    replace = file_access.replace_file

    def full(place: Any, path: str, data: bytes, *, is_new: bool = False) -> None:
        if data == b"C\n":
            raise OSError(28, "No space left on device")
        replace(place, path, data, is_new=is_new)

    monkeypatch.setattr(file_edits, "replace_file", full)

    assert status(apply(bench, patch)) == ("error", "no_space")
    assert files(bench) == before


class Crash(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("made", range(4))
@pytest.mark.parametrize("change", [None, "changed"])
def test_a_patch_that_a_crash_interrupted_is_completed_or_undone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, made: int, change: str | None
) -> None:
    """AG-118: after each of its changes. If someone else has changed a file since then, no change
    of the patch stays."""
    for name in "abc":
        (bench.root / name).write_text(f"{name}\n")
    lines = ["*** Update File: a", "-a", "+A", "*** Delete File: b", "*** Update File: c"]
    patch = v4a(*lines, "-c", "+C")
    session = bench.run(bench.open)
    params = {"session_id": session, "patch": inline(patch)}
    make = file_edits._make_one
    left = [made]

    def crash(root: Any, each: Any) -> None:
        if not left[0]:
            raise Crash
        left[0] -= 1
        make(root, each)

    with monkeypatch.context() as patching:
        patching.setattr(file_edits, "_make_one", crash)
        if made < 3:
            with pytest.raises(Crash):
                bench.run(lambda: bench.call("fs.apply_patch", params, intent=INTENT))
        else:
            bench.run(lambda: bench.call("fs.apply_patch", params, intent=INTENT))
    if change is not None:
        (bench.root / "c").write_text(change)

    again = bench.run(lambda: bench.call("fs.apply_patch", params, intent=INTENT))

    if change is None or made == 3:
        assert (status(again), again["files_changed"]) == (("ok", None), 3)
        assert files(bench) == {"a": "A\n", "c": change or "C\n"}
    else:
        assert status(again) == ("lost", "changed_meanwhile")
        assert files(bench) == {"a": "a\n", "b": "b\n", "c": change}


def fit(content: str, *lines: str) -> str:
    (file,) = parse_patch(v4a("*** Update File: f", *lines), None)
    return patched(content.encode(), file.hunks, "f", FitBudget()).decode()


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        ("a\nb\na\nb\n", ["@@", "-a", "+x", "@@", "-a", "+y"], "x\nb\ny\nb\n"),
        ("a\nb\n", ["-a", "-b", "+c"], "c\n"),
        ("a\n", ["-a"], ""),
        ("a\nb\n", ["@@ a", "+new"], "a\nnew\nb\n"),
        ("a\nb\n", ["+new"], "a\nb\nnew\n"),
        ("a\nx\na\nx\n", [" a", "-x", "+y", "*** End of File"], "a\nx\na\ny\n"),
        ("a  \nb\n", ["-a", "+c", " b"], "c\nb\n"),
        ("\tkeep  \nb\n", [" keep", "-b", "+c"], "\tkeep  \nc\n"),
        ("a\r\nb\r\n", ["-a", "+c"], "c\r\nb\r\n"),
        ("a\nb", ["-a", "+c"], "c\nb"),
        (
            "class A:\n f\nclass B:\n f\n",
            ["@@ class B:", "- f", "+ g"],
            "class A:\n f\nclass B:\n g\n",
        ),
        ("a\n\nb\n", [" a", "", "-b", "+c"], "a\n\nc\n"),
        ("", ["+a"], "a\n"),
    ],
)
def test_a_hunk_without_line_numbers_finds_its_place(
    content: str, lines: list[str], expected: str
) -> None:
    """AG-121."""
    assert fit(content, *lines) == expected


def test_the_same_lines_are_preferred_to_similar_ones() -> None:
    """AG-121: three passes, over the whole file each."""
    assert fit("  a\na \na\n", "-a", "+x") == "  a\na \nx\n"
    assert fit("  a\na \n", "-a", "+x") == "  a\nx\n"
    assert fit("  a\n", "-a", "+x") == "x\n"


def unified(old: str, new: str, name: str = "f", context: int = 3) -> str:
    """A diff as ``diff -u`` makes it."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
        n=context,
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


LINES = st.lists(st.sampled_from(["a", "b", "", " a", "-a", "+", "@@ x", "--- y", "+++ z"]))


@given(
    old=LINES, new=LINES, bare=st.tuples(st.booleans(), st.booleans()), context=st.integers(0, 3)
)
def test_a_unified_diff_makes_the_new_text_of_the_old(
    old: list[str], new: list[str], bare: tuple[bool, bool], context: int
) -> None:
    """AG-120, AG-121."""
    before, after = (
        "\n".join(lines) + ("" if is_bare or not lines else "\n")
        for lines, is_bare in zip((old, new), bare, strict=True)
    )
    patch = unified(before, after, context=context)
    if not patch:
        return

    (file,) = parse_patch(patch, "unified")

    assert patched(before.encode(), file.hunks, "f", FitBudget()).decode() == after


GIT = shutil.which("git")


@pytest.mark.skipif(GIT is None, reason="needs git")
def test_a_diff_of_git_is_applied_as_git_does(bench: Bench, tmp_path: Path) -> None:
    """AG-120: new, removed, renamed and changed files, and text without a last line feed."""
    git = tmp_path / "git"
    git.mkdir()
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"}

    def run(*arguments: str) -> str:
        assert GIT is not None
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        return subprocess.run(
            [GIT, *identity, *arguments],
            cwd=git,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    run("init", "-q")
    old = {
        "changed": "".join(f"line {number}\n" for number in range(40)),
        "gone": "x\ny\n",
        "moved": "".join(f"m {number}\n" for number in range(20)),
        "bare": "no feed",
        "same": "s\n",
    }
    for name, text in old.items():
        (git / name).write_text(text)
        (bench.root / name).write_text(text)
    run("add", ".")
    run("commit", "-q", "-m", "one")
    (git / "changed").write_text(old["changed"].replace("line 3\n", "").replace("30", "thirty"))
    (git / "gone").unlink()
    (git / "dir").mkdir()
    (git / "moved").rename(git / "dir" / "moved")
    (git / "dir" / "moved").write_text(old["moved"].replace("m 7", "m seven"))
    (git / "bare").write_text("now with feed\n")
    (git / "new").write_text("n\nwithout")
    run("add", ".")
    diff = run("diff", "--cached", "-M")

    found = apply(bench, diff)

    assert status(found) == ("ok", None), found
    assert files(bench) == {
        str(each.relative_to(git)): each.read_text()
        for each in git.rglob("*")
        if each.is_file() and ".git" not in each.parts
    }
    assert found["ops"] == {"add": 1, "update": 2, "delete": 1, "move": 1}


def test_a_unified_hunk_may_have_moved_and_must_be_the_same(bench: Bench) -> None:
    """AG-121: the nearest place counts; similar lines do not."""
    (bench.root / "f").write_text("0\n0\na\nb\n0\n0\n0\n0\na\nb\n")
    diff = "--- f\n+++ f\n@@ -8,2 +8,2 @@\n a\n-b\n+c\n"

    assert status(apply(bench, diff)) == ("ok", None)
    assert (bench.root / "f").read_text() == "0\n0\na\nb\n0\n0\n0\n0\na\nc\n"
    (bench.root / "f").write_text("a \nb\n")
    assert status(apply(bench, diff)) == ("error", "patch_does_not_apply")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no patch",
        "*** Begin Patch",
        "*** Begin Patch\n*** Update File: f\n@@\n",
        "--- f\n+++ f\n",
        "--- f\n+++ f\n@@ -1 +1 @@\n-a\n",
        "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n-b\n+c\n",
        "--- f\n+++ f\n@@ nonsense @@\n",
        "@@ -1 +1 @@\n-a\n+b\n",
        "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
        "Binary files a/x and b/x differ\n",
        "rename from a\n",
    ],
)
def test_a_text_that_is_no_patch_is_refused_with_its_line(text: str) -> None:
    """AG-119, AG-120."""
    with pytest.raises(Declined, match=r"line \d+ of the patch: ") as refused:
        parse_patch(text, None)

    assert refused.value.code == "patch_invalid"


def test_formats_have_names(bench: Bench) -> None:
    """AG-119: a format that is given is not guessed."""
    (bench.root / "f").write_text("a\n")
    diff = "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n"

    assert status(apply(bench, diff, patch_format="v4a")) == ("error", "patch_invalid")
    assert status(apply(bench, diff, patch_format="ed")) == ("error", "invalid_params")
    assert status(apply(bench, diff, patch_format="unified", dry_run=True)) == ("ok", None)
    text = {"$tag": "blob_ref", "$value": {"blob_ref": bench.put(diff.encode())}}
    assert status(bench.one("fs.apply_patch", patch=text)) == ("ok", None)
    odd = {"$tag": "blob_ref", "$value": {"blob_ref": bench.put(b"\xff")}}
    assert status(bench.one("fs.apply_patch", patch=odd)) == ("error", "patch_invalid")


def test_a_file_may_be_changed_twice_in_a_patch(bench: Bench) -> None:
    """AG-118: each change sees the ones before it. Links are the files that they lead to."""
    (bench.root / "f").write_text("a\n")
    (bench.root / "link").symlink_to("f")
    patch = v4a(
        "*** Update File: f",
        "-a",
        "+b",
        "*** Update File: link",
        "-b",
        "+c",
        "*** Add File: g",
        "+x",
    )

    found = apply(bench, patch)

    assert (status(found), found["changed_paths"]) == (("ok", None), ["f", "g"])
    assert (bench.root / "link").is_symlink()
    assert files(bench) == {"f": "c\n", "g": "x\n", "link": "c\n"}


@given(st.text(alphabet="*+- @\n\\abE", max_size=80), st.sampled_from(["v4a", "unified", None]))
def test_any_text_is_parsed_or_declined(text: str, format: str | None) -> None:
    """AG-119, AG-120."""
    for begin in ("", "*** Begin Patch\n*** Update File: f\n", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n"):
        try:
            for file in parse_patch(begin + text, format):
                patched(b"a\nb\n", file.hunks, "f", FitBudget())
        except Declined as problem:
            assert problem.code in ("patch_invalid", "patch_does_not_apply")  # noqa: PT017


@pytest.mark.parametrize("kind", ["many hunks", "similar lines"])
def test_a_patch_that_would_take_for_ever_is_declined(bench: Bench, kind: str) -> None:
    """AG-121."""
    lines = ["a"] * 200_000
    (bench.root / "f").write_text("\n".join(lines) + "\n")
    if kind == "many hunks":
        hunks = ["@@", "-b", "+c"] * 1000
        first = "".join(f"{line}\n" for line in ["b"] * 1000)
        (bench.root / "f").write_text("\n".join(lines) + "\n" + first)
    else:
        hunks = [f" {line}" for line in lines[:100_000]] + ["-b", "+c"]
    before = (bench.root / "f").read_bytes()

    found = apply(bench, v4a("*** Update File: f", *hunks))

    assert status(found) == ("error", "too_large")
    assert (bench.root / "f").read_bytes() == before


def test_the_paths_of_a_receipt_have_a_limit(bench: Bench) -> None:
    """AG-119: so that the receipt is never too large, after the files have changed."""
    added = [
        line
        for number in range(999)
        for line in (f"*** Add File: {'d' * 200}/{'e' * 200}/{number}", "+x")
    ]

    assert status(apply(bench, v4a(*added))) == ("error", "too_large")
    assert list(bench.root.iterdir()) == []


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *names, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        missing("git is not installed: its patches are not tested")
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "kept").write_text("one\ntwo\n")
    (folder / "hollow").touch()
    (folder / "link").symlink_to("kept")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def new_link(folder: Path) -> None:
    (folder / "other").symlink_to("/etc/passwd")


def changed_link(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").symlink_to("hollow")


def no_link(folder: Path) -> None:
    (folder / "link").unlink()


def link_for_file(folder: Path) -> None:
    (folder / "kept").unlink()
    (folder / "kept").symlink_to("hollow")


def submodule(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x").write_text("x")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "x")


@pytest.mark.parametrize("change", [new_link, changed_link, no_link, link_for_file, submodule])
def test_a_patch_of_git_that_is_not_about_a_file_is_refused(
    bench: Bench, repository: Path, change: Callable[[Path], None]
) -> None:
    """AG-120: and nothing of it is applied."""
    change(repository)
    (repository / "a-new").write_text("new\n")
    git(repository, "add", ".")
    patch = git(repository, "diff", "--cached")
    (bench.root / "kept").write_text("one\ntwo\n")
    before = files(bench)
    receipt = apply(bench, patch, patch_format="unified")
    assert status(receipt) == ("error", "patch_invalid")
    assert files(bench) == before


def test_a_patch_of_git_with_a_copy_is_refused(bench: Bench, repository: Path) -> None:
    """AG-120: it was taken for a rename, and the source was deleted."""
    (repository / "copy").write_text("one\ntwo\nthree\n")
    (repository / "kept").write_text("one\ntwo\nfour\n")
    git(repository, "add", ".")
    patch = git(repository, "diff", "--cached", "-C", "--find-copies-harder", "-M10%", "-C10%")
    assert "copy from kept" in patch
    (bench.root / "kept").write_text("one\ntwo\n")
    assert status(apply(bench, patch, patch_format="unified")) == ("error", "patch_invalid")


def test_a_patch_of_git_makes_and_deletes_files_without_lines(
    bench: Bench, repository: Path
) -> None:
    """AG-120."""
    (repository / "hollow").unlink()
    (repository / "a hollow one").touch()
    (repository / "kept").write_text("one\nTWO\n")
    (repository / "last").touch()
    git(repository, "add", ".")
    patch = git(repository, "diff", "--cached", "--no-renames")
    (bench.root / "kept").write_text("one\ntwo\n")
    (bench.root / "hollow").touch()
    assert status(apply(bench, patch, patch_format="unified")) == ("ok", None)
    assert files(bench) == {"a hollow one": "", "kept": "one\nTWO\n", "last": ""}
