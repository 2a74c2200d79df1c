"""The table of routes, its handlers, and the committed OpenAPI document (N-101, N-102)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import jsonschema
import pytest

from aos.node import openapi
from aos.node.handlers import HANDLERS
from aos.node.routes import BY_PATH, ROUTES, ApiRoute
from aos.node.tokens import VERBS
from tests.node.test_json_schema import check_schema

SPEC = Path(__file__).parents[2] / "spec" / "openapi.json"


def test_the_committed_document_is_the_one_that_a_node_serves() -> None:
    """To write it again: python -m aos.node.openapi > spec/openapi.json"""
    assert SPEC.read_text() == openapi.text()


def test_every_operation_has_one_route_and_a_handler() -> None:
    operations = [each.operation for each in ROUTES]

    assert len(set(operations)) == len(operations)
    assert set(operations) <= set(HANDLERS)
    assert sum(map(len, BY_PATH.values())) == len(ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: each.operation)
def test_a_route_is_complete(route: ApiRoute) -> None:
    assert route.scope is None or route.scope in VERBS
    assert (route.answer is None) != (route.media is None)
    assert route.method == "POST" or (route.body is None and route.bytes_type is None)
    assert "{" not in route.path
    names = [each.name for each in route.query]
    assert len(set(names)) == len(names)
    for schema in (*(each.schema for each in route.query), route.body or {}):
        check_schema(schema)
        jsonschema.Draft202012Validator.check_schema(schema)
    if route.answer is not None:
        jsonschema.Draft202012Validator.check_schema(route.answer)


def test_the_document_refers_only_to_what_it_defines() -> None:
    document = openapi.document()
    text = json.dumps(document)

    assert document["openapi"] == "3.1.0"
    for part in text.split('"$ref": "')[1:]:
        place = part.split('"')[0].removeprefix("#/").split("/")
        found = document
        for name in place:
            found = found[name]
        assert found


def test_the_lengths_of_bytes_are_those_of_their_base64_in_json() -> None:
    content = openapi.document()["paths"]["/v1/commands"]["post"]["requestBody"]["content"]
    signature = {kind: each["schema"]["properties"]["signature"] for kind, each in content.items()}
    assert signature["application/json"]["minLength"] == len(base64.b64encode(bytes(64)))
    assert signature["application/cbor"]["minLength"] == 64


def test_a_link_of_an_answer_leads_to_parameters_of_its_operation() -> None:
    known = {each.operation: {query.name for query in each.query} for each in ROUTES}
    links = [(route, each) for route in ROUTES for each in route.links]
    assert links
    for route, link in links:
        assert set(link.query) <= known[link.operation], route.operation
