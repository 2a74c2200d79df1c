"""The second kernel reads schemas, values and manifests as the reference, and says the same."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.fastcore.buffer import ProbeRefused
from aos.host.apply.manifest_files import read_manifest_files
from aos.manifest.effective import Effective
from aos.manifest.load import load
from aos.manifest.shards import with_shard
from aos.values.cbor import decode_record, encode
from tests.core.group_shop import shop
from tests.fastcore.owned import made_core, on_owner
from tests.fastcore.questions import QUESTION, Pair, Words
from tests.fastcore.spellings import broken, damaged, of_another_form, spelled, value_of
from tests.manifest import example
from tests.values import strategies as alphabets

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for place in ("manifests/*/air", "manifests/cookbook/*/air", "modules/conformance/air")
    for path in ROOT.glob(place)
)
SEEDS: Final = st.integers(0, 2**32)
NAMES: Final = st.sampled_from(["t", "a/A@1", "b/B@1", "c"])


@pytest.fixture(scope="module")
def pair() -> Pair:
    core = made_core()

    def probe(question: bytes) -> bytes | Words:
        try:
            return on_owner(lambda: core._core.call("probe", QUESTION, question))
        except ProbeRefused as problem:
            return Words(problem)

    return Pair(probe)


def agree_about(pair: Pair, schema: str, data: bytes, chance: Random) -> None:
    """Put all questions about one schema and these bytes."""
    size = chance.choice([1 << 20, len(data), max(len(data) - 1, 0)])
    pair.agree("from_ingress", schema, data, size)
    pair.agree("from_record", schema, data)
    pair.agree("completed", schema, data)
    pair.agree("completed_value", schema, data)
    pair.agree("fitted", schema, data)
    pair.agree("from_foreign", schema, data, size)
    pair.agree("rewritten", schema, data)


def spellings_of(value: Any, chance: Random) -> list[bytes]:
    """Bytes of the value and of others like it."""
    wrong, other = broken(value, chance), of_another_form(value, chance)
    return [
        encode(value),
        b"\xd9\xd9\xf7" + encode(value),
        encode(value) + b"\0",
        spelled(value, chance),
        damaged(encode(value), chance),
        damaged(spelled(value, chance), chance),
        encode(wrong),
        spelled(wrong, chance),
        encode(other),
        spelled(other, chance),
    ]


@given(typed=alphabets.typed_values, other=alphabets.values, seed=SEEDS)
def test_values_of_any_type_are_read_alike(
    pair: Pair, typed: tuple[dict[str, Any], Any], other: Any, seed: int
) -> None:
    chance = Random(seed)
    type_, value = typed
    pair.agree("compiled", {"t": type_})
    loose = alphabets.loosen(type_, value, chance)
    for data in (*spellings_of(value, chance), *spellings_of(loose, chance), encode(other)):
        agree_about(pair, "t", data, chance)


@given(first=alphabets.types, second=alphabets.types, seed=SEEDS)
def test_values_behind_references_are_read_alike(
    pair: Pair, first: dict[str, Any], second: dict[str, Any], seed: int
) -> None:
    chance = Random(seed)
    parts = {
        "x": {"ref": "a/A@1"},
        "y": {"option": {"list": {"ref": "b/B@1"}}},
        "v": {"variant": {"A": {"ref": "a/A@1"}, "U": {"ref": "u/U@1"}, "E": {"record": {}}}},
    }
    types = {"t": {"record": parts}, "a/A@1": first, "b/B@1": second, "u/U@1": {"unit": {}}}
    pair.agree("compiled", types)
    value = value_of(pair.schemas["t"].type, pair.schemas, chance)
    short = {**value, "v": chance.choice(["U", "E", {"U": None}, {"E": None}, {"A": value["x"]}])}
    for data in (*spellings_of(value, chance), *spellings_of(short, chance)):
        agree_about(pair, "t", data, chance)


ODD_TYPES: Final[list[Any]] = [
    None, 1, "x", {}, [], {"ref": "a/A@1"}, {"ref": "b/B@1"}, {"ref": "t"}, {"ref": 5},
    {"text": 1}, {"option": {"unit": {}}}, {"option": {"option": {"text": {}}}}, {"nope": {}},
    {"record": []}, {"variant": {}}, {"record": {"$x": {"text": {}}}}, {"record": {7: None}},
    {"record": {"": {"text": {}}, "a/b~": {"list": {"ref": "zz"}}}}, {5: {}}, {"$comment": 1},
    {"map": {"key": {"bool": {}}, "value": {"text": {}}}}, {"map": {"key": {"text": {}}}},
    {"text": {}, "nat": {}}, {"$comment": "why", "text": {}}, {"set": {"option": {"ref": "c"}}},
]  # fmt: skip


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "b", "$c", "q/~"]), inner, max_size=3)
    return st.one_of(
        inner.map(lambda item: {"list": item}),
        inner.map(lambda item: {"option": item}),
        named.map(lambda parts: {"record": parts}),
        named.map(lambda parts: {"variant": parts}),
        st.tuples(inner, inner).map(lambda two: {"map": {"key": two[0], "value": two[1]}}),
    )


@given(
    types=st.dictionaries(
        NAMES,
        st.recursive(st.sampled_from(ODD_TYPES) | alphabets.types, containers, max_leaves=5),
        max_size=4,
    )
)
def test_types_have_the_same_problems(pair: Pair, types: dict[str, Any]) -> None:
    pair.agree("compiled", types)


@pytest.mark.parametrize("levels", [63, 64, 65])
@pytest.mark.parametrize("form", ["list", "map", "option"])
def test_types_are_as_deep(pair: Pair, levels: int, form: str) -> None:
    types: dict[str, Any] = {"t0": {"text": {}}}
    for level in range(levels):
        inner = {"ref": f"t{level}"}
        types[f"t{level + 1}"] = {
            "list": {"list": inner},
            "map": {"map": {"key": {"uuid": {}}, "value": inner}},
            "option": {"option": {"set": inner}},
        }[form]
    answer = pair.agree("compiled", types)
    assert isinstance(answer, Words) == (levels > 64)


@pytest.mark.parametrize("extra", [0, 1, 2, 63, 64, 65, 200])
def test_the_deepest_values_are_read_alike(pair: Pair, extra: int) -> None:
    types: dict[str, Any] = {"t0": {"option": {"list": {"bytes": {}}}}}
    for level in range(63):
        types[f"t{level + 1}"] = {"variant": {"A": {"ref": f"t{level}"}, "B": {"record": {}}}}
    pair.agree("compiled", types)
    data = b"\xa2\x64$tag\x61A\x66$value" * 63 + b"\x81" * extra + b"\x40"
    agree_about(pair, "t63", data, Random(extra))
    agree_about(pair, "t63", b"\xc1" * extra + b"\xf6", Random(extra))


@pytest.mark.parametrize("count", [32_767, 32_768, 65_536, 65_537])
def test_large_values_are_refused_alike(pair: Pair, count: int) -> None:
    """V-14, V-42: items at ingress, and fields that are filled in."""
    pair.agree("compiled", {"t": {"list": {"record": {"a": {"option": {"nat": {}}}}}}})
    data = encode([{}] * count)
    pair.agree("from_ingress", "t", data, 1 << 20)
    pair.agree("completed", "t", data)


@pytest.mark.parametrize(
    "dotted", ["a", "b", "a.b", "a.$value", "a.b.c", "", "a.", "é", "a.b.$tag", "x.y"]
)
def test_parts_are_the_same(pair: Pair, dotted: str) -> None:
    for value in ({"a": {"b": {"$tag": "x"}}, "": 1}, {"a": 5}, {"a": {"": 2}}, [1], None, {}):
        pair.agree("part", value, dotted)


@cache
def documents() -> dict[str, bytes]:
    """The documents of all manifests of this repository, by the folder."""
    folders = {folder: load(read_manifest_files(ROOT / folder)[0]) for folder in FOLDERS}
    effectives = {folder: loaded.effective for folder, loaded in folders.items()}
    effectives["example"] = example.loaded().effective
    return {folder: effective.document for folder, effective in effectives.items()}


def test_manifests_are_read_alike(pair: Pair) -> None:
    whole = documents()
    assert len(whole) > 12
    visited: set[str] = set()
    for document in whole.values():
        pair.agree("effective", document)
        effective = Effective.from_document(document)
        chance = Random(len(document))
        for name, schema in pair.schemas.items():
            if f"{name} {schema.type}" not in visited:
                visited.add(f"{name} {schema.type}")
                value = value_of(schema.type, pair.schemas, chance)
                for data in spellings_of(value, chance):
                    agree_about(pair, name, data, chance)
        agree_about_uses(pair, effective, chance)
        pair.agree("shapes", document, chance.choice(list(whole.values())))


def test_the_shard_and_the_placements_of_a_manifest_are_read_alike(pair: Pair) -> None:
    """GR-1, GR-3 to GR-5, GR-10, and documents with another shard."""
    whole = shop().effective
    for effective in (whole, shop([]).effective, with_shard(whole, 1, 3)):
        pair.agree("effective", effective.document)
    parts: Any = decode_record(whole.document)
    others: list[Any] = [None, [0, 1], [2, 2], [-1, 2], [0, 1025], [1023, 1024], [0], "0/2", {}, 7]
    for shard in others:
        pair.agree("effective", encode({**parts, "shard": shard}))


def agree_about_uses(pair: Pair, effective: Effective, chance: Random) -> None:
    """Keys of events, and secrets in params."""
    for index, route in enumerate(effective.subscriptions):
        value = value_of(effective.schemas[route.event].type, effective.schemas, chance)
        for event in (value, broken(value, chance)):
            pair.agree("key", effective.document, index, event)
    for name, effect in effective.effects.items():
        value = value_of(effect.params.type, effective.schemas, chance)
        for workflow in effective.workflows:
            pair.agree("secrets", effective.document, workflow, name, value)


def test_a_header_may_be_text(pair: Pair) -> None:
    """M-52, with and without secrets."""
    http = "sys/HttpRequestParams@1"
    params: dict[str | int, Any] = {"method": "GET", "url": "", "body": None, "body_ref": None}
    headers: list[Any] = [
        {}, {"a": "text"}, {"a": {"$tag": "literal", "$value": "text"}}, {"a": 5}, "a", None,
        {"b": "x", "a": {"$tag": "secret", "$value": {"alias": "key", "version": 1}}},
    ]  # fmt: skip
    for document in documents().values():
        pair.agree("effective", document)
        if http in pair.schemas:
            for header in headers:
                data = encode({**params, "headers": header})
                agree_about(pair, http, data, Random(1))


@pytest.mark.parametrize("users", [None, ["a/w@1"], ["a/other@1"]])
def test_secrets_are_named_alike(pair: Pair, users: list[str] | None) -> None:
    """M-56: a secret that a workflow may use, one that it may not, and one that is none."""
    whole: Any = decode_record(documents()["manifests/gateway"])
    for node in whole["definitions"]:
        if node["$kind"] == "defsecret":
            node.pop("workflows", None)
            node.update({} if users is None else {"workflows": users})
    document = encode(whole)
    effective = Effective.from_document(document)
    alias, _, version = next(iter(effective.secrets)).rpartition("@")
    answers = set()
    for effect in effective.effects.values():
        for seed in range(10):
            chance = Random(seed)
            params = value_of(effect.params.type, effective.schemas, chance)
            value = _with_references(params, alias, chance.choice([int(version), 77]))
            answer = pair.agree("secrets", document, "a/w@1", effect.name, value)
            answers.add(str(answer).partition(": ")[2].partition('" ')[2])
    assert answers >= {"", "is not in the manifest"}
    assert ("may not be used by a/w@1" in answers) == (users == ["a/other@1"])


def _with_references(value: Any, alias: str, version: int) -> Any:
    """The value with references to one secret."""
    if isinstance(value, list):
        return [_with_references(item, alias, version) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"alias", "version"}:
        return {"alias": alias, "version": version}
    return {key: _with_references(part, alias, version) for key, part in value.items()}


@pytest.mark.parametrize(
    "change",
    [
        {"semantics": 2},
        {"semantics": "1"},
        {"definitions": 7},
        {"definitions": []},
        {"manifest": {}},
        {"limits": {"world": {"fuel": 1}, "workflows": {}}},
    ],
)
def test_a_document_that_is_none_is_damage_in_the_same_words(
    pair: Pair, change: dict[str | int, Any]
) -> None:
    whole: Any = decode_record(documents()["example"])
    assert isinstance(pair.agree("effective", encode({**whole, **change})), Words)


def test_bytes_that_are_no_document_are_damage_in_the_same_words(pair: Pair) -> None:
    whole = documents()["example"]
    for data in (b"", b"\xa0", b"\x01", whole[:-1], whole + b"\0", encode([]), encode({"a": 1})):
        assert isinstance(pair.agree("effective", data), Words)


ALIASES: Final = 20_000
"""More than either language nests calls."""


def aliases_of(last: Any) -> dict[str | int, Any]:
    """Schemas of which each is another name of the next one; the last is ``last``."""
    names = [f"c/C{number}@1" for number in range(ALIASES)]
    following = [*({"ref": name} for name in names[1:]), last]
    return dict(zip(names, following, strict=True))


def test_a_chain_of_aliases_has_any_length(pair: Pair) -> None:
    """V-25: references nest nothing in a value."""
    parts = {"h": {"hash": {}}, "b": {"bytes": {}}, "u": {"option": {"text": {}}}}
    assert isinstance(pair.agree("compiled", aliases_of({"record": parts})), list)
    value: Any = {"h": "blake3:" + "00" * 32, "b": b"x", "u": None}
    for data in spellings_of(value, Random(1)):
        agree_about(pair, "c/C0@1", data, Random(1))


def test_secrets_are_found_at_the_end_of_a_chain_of_aliases(pair: Pair) -> None:
    """M-56."""
    whole: Any = decode_record(documents()["manifests/gateway"])
    effective = Effective.from_document(encode(whole))
    name = next(name for name, effect in effective.effects.items() if effect.takes_secrets)
    params = effective.effects[name].params
    (node,) = [node for node in whole["definitions"] if node["name"] == name]
    node["params"] = "c/C0@1"
    whole["definitions"] += [
        {"$kind": "defschema", "name": alias, "type": type_}
        for alias, type_ in aliases_of({"ref": params.name}).items()
    ]
    value = _with_references(value_of(params.type, effective.schemas, Random(3)), "none", 1)

    answer = pair.agree("secrets", encode(whole), "a/w@1", name, value)

    assert answer is None or "is not in the manifest" in str(answer)
