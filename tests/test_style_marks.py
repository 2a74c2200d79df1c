"""Our prose keeps to the language standard: marks of the old style are counted, by area and in all.

``python -m tests.style_marks`` lists every find with its file and line.
"""

from __future__ import annotations

import pytest

from tests import style_marks
from tests.style_marks import EXEMPT, MARKS, WORDS_FOR_ONE, marks_in

MARKED = {
    "beside": "It lies beside the journal.",
    "stands": "The rule stands in the spec.",
    "nobody": "Nobody reads it.",
    "goes on": "The world went on.",
    "anew": "It is drawn anew.",
    "what/who": "What changes it is over.",
}
CLAUSES = (
    "who reads it knows",
    "What a module is refused for.",
    "Done; who only shows them says so.",
    "It ends, and what is left waits.",
    "Damage to whoever cannot go without.",
    "The value (what is cut off) is lost.",
)
PLAIN = (
    "What changed?",
    "What to look for",
    "The client, who signs it, waits.",
    "The record says what it read.",
    "It understands outstanding work and besides has a stand-in.",
    "Whether it fits is checked.",
)


def test_every_area_and_the_whole_keep_their_bound_of_marks_of_the_old_style() -> None:
    areas, finds = style_marks.counted(style_marks.files())
    words = sum(counts.words for counts in areas.values())

    too_many = [
        find
        for find in finds
        for counts in [areas[style_marks.area_of(find.path)]]
        if counts.found[find.mark] > counts.bound()
    ]
    assert not too_many, "more marks than allowed in their areas:\n" + "\n".join(map(str, too_many))

    for mark in MARKS:
        here = [find for find in finds if find.mark == mark]
        assert len(here) <= words // WORDS_FOR_ONE, "\n".join(map(str, here))


def test_every_exempt_text_is_still_there() -> None:
    sources = [(style_marks.ROOT / name).read_text("utf-8") for name in style_marks.files()]

    assert [each for each in EXEMPT if not any(each in source for source in sources)] == []


@pytest.mark.parametrize("mark", MARKS)
def test_each_mark_is_found(mark: str) -> None:
    assert [found for _, found, _ in marks_in(MARKED[mark])] == [mark]


@pytest.mark.parametrize("text", CLAUSES)
def test_a_clause_that_opens_with_what_or_who_and_a_verb_is_found(text: str) -> None:
    assert [found for _, found, _ in marks_in(text)] == ["what/who"]


@pytest.mark.parametrize("text", PLAIN)
def test_questions_and_other_clauses_are_no_marks(text: str) -> None:
    assert list(marks_in(text)) == []


def lines(reader: str, source: str) -> list[int]:
    return [
        piece.line + piece.text.count("\n", 0, offset)
        for piece in getattr(style_marks, reader)(source)
        for offset, _, _ in marks_in(piece.text)
    ]


def test_markdown_is_read_without_its_code() -> None:
    source = (
        "# It stands\n\ntext\nbeside it\n\n    beside code\n\n```\nbeside code\n```\n\n"
        "- one\n- `beside`\n- anew\n\n| a | nobody |\n"
    )

    assert lines("markdown", source) == [1, 4, 14, 16]


def test_python_is_read_by_its_docstrings_comments_messages_and_names_of_tests() -> None:
    source = (
        '"""One.\n\nTwo stands here."""\n'  # lines 1 to 3
        "beside = stands  # a name: nobody reads it\n"
        'raise ValueError(f"it lies {beside} "\n    "anew in the house")\n'
        "def test_what_is_torn_is_cut():\n    pass\n"
        'KEY = "beside"\n'
    )

    assert sorted(lines("python", source)) == [3, 4, 6, 7]


def test_rust_and_assemblyscript_are_read_by_their_comments() -> None:
    source = (
        '//! One.\n//! It stands.\nlet a = "// beside it all"; // anew\n'
        "/* two\n * nobody */\nlet b = 1;\n/// beside\n"
    )

    assert lines("c_like", source) == [2, 3, 5, 7]


def test_comments_of_other_files_are_read() -> None:
    assert lines("hashed", 'a = 1 # anew\n\t@echo "nobody"\n') == [1, 2]
    assert lines("wat", "(module) ;; it stands\n") == [1]
    assert lines("schema", '{\n "title": "nobody", "name": "anew"}\n') == [2]
