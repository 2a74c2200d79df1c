"""Queries: names and values, and what is between them (N-112)."""

from __future__ import annotations

import pytest

from aos.node.problems import Problem
from aos.node.queries import read_query
from aos.node.routes import BY_PATH, GET

CELLS = BY_PATH["/v1/cells"][GET]


@pytest.mark.parametrize(
    "query",
    [
        b"workflow=a&limit=7&",
        b"&workflow=a&limit=7",
        b"workflow=a&&limit=7",
        b"&&limit=7&&workflow=a&",
    ],
)
def test_an_empty_pair_is_nothing(query: bytes) -> None:
    found = read_query(CELLS, query)

    assert (found["workflow"], found["limit"]) == ("a", 7)


@pytest.mark.parametrize("query", [b"", b"&", b"&&&"])
def test_a_query_of_nothing_has_the_defaults(query: bytes) -> None:
    assert read_query(CELLS, query) == read_query(CELLS, b"")


@pytest.mark.parametrize(
    "query",
    [b"workflow", b"workflow=a&limit", b"=", b"=a", b"workflow=a&=", b"workflow=%ff",
     b"workflow=\xff", b"workflow=a&workflow=b", b"limit=", b"&".join([b"kind=event"] * 300)],
)  # fmt: skip
def test_another_query_is_400(query: bytes) -> None:
    with pytest.raises(Problem) as caught:
        read_query(CELLS, query)

    assert (caught.value.status, caught.value.rule) == (400, "query_is_invalid")
