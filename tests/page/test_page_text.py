"""Values and rows as the templates print them (spec/page.md, PG-21, PG-85)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aos.document_text import CONTROLS
from aos.page.page_text import COLOURED_MAX, TEXT_MAX, alike, pretty, tokens, visible

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(alphabet='ab": \\{}[],\n\u202e0<', max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(alphabet='ab": \\<', max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_every_control_character_and_direction_mark_is_an_escape() -> None:
    """PG-21"""
    for code, escape in CONTROLS.items():
        assert visible(chr(code)) == escape
        assert visible(f"a{chr(code)}b") == f"a{escape}b"


@given(st.text(alphabet=st.characters() | st.sampled_from([chr(code) for code in CONTROLS])))
def test_no_other_character_of_a_text_changes(text: str) -> None:
    """PG-21"""
    assert visible(text) == "".join(CONTROLS.get(ord(sign), sign) for sign in text)
    assert len(visible("a" * (TEXT_MAX + 1))) == TEXT_MAX


@given(VALUES)
def test_the_parts_of_a_value_are_its_text(value: Any) -> None:
    parts = tokens(value)

    assert "".join(text for _, text in parts) == pretty(value)
    assert {kind for kind, _ in parts} <= {"", "name", "text", "rest"}


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=9), min_size=1, max_size=5))
def test_names_and_texts_have_different_colours(value: dict[str, str]) -> None:
    parts = tokens(value)

    def shown(kind: str) -> list[str]:
        return [json.loads(text) for each, text in parts if each == kind]

    assert shown("name") == list(value)
    assert shown("text") == list(value.values())


def test_a_long_value_and_a_text_have_no_colours() -> None:
    assert tokens(["a" * COLOURED_MAX]) == [("", pretty(["a" * COLOURED_MAX]))]
    assert tokens('"a": 1') == [("", '"a": 1')]


def test_rows_are_grouped_in_the_order_in_which_each_group_begins() -> None:
    rows = [{"kind": kind, "n": n} for n, kind in enumerate("baab")]

    groups = alike(rows, "kind")

    assert [[row["n"] for row in group] for group in groups] == [[0, 3], [1, 2]]
