"""Send one event from a node's page: ``/send`` (spec/page.md, PG-70 to PG-75).

/send                                    the events that the world routes and the caller may send
/send?schema=shop/OrderPlaced@1          a form with an example of its JSON
POST                                     303 to the event's record

Rule 1: the submission id is made of the form's id and its content. So a form that is sent again,
also to a node that has restarted, makes no second event; another text does.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aos.core.decide.answers import Rule
from aos.errors import AosError
from aos.host.errors import Busy
from aos.manifest.effective import ONLY_OWN_STEPS, Effective
from aos.manifest.names import CONTINUATIONS, ONLY_DELIVERED, is_system
from aos.node import json_schema
from aos.node.access import check_scope
from aos.node.bodies import BATCH_BYTES_MAX, ITEMS_MAX, LARGE_BYTES, too_large
from aos.node.calls import ApiCall
from aos.node.events import DURABLE, event_body_max, not_allowed
from aos.node.handlers import HANDLERS
from aos.node.problems import Problem, problem_of
from aos.node.queries import read_query
from aos.node.routes import BY_PATH, GET, POST, ApiRoute
from aos.node.services import Services
from aos.node.tokens import SEND, Token
from aos.page.page_buttons import PageButton
from aos.page.page_forms import FORM_BYTES_MAX, FormCall, FormMisfitError, FormView, Visit
from aos.page.page_links import PageLinks
from aos.page.page_text import TEXT_MAX
from aos.read.operations.operation import NAME, TEXT_KEY, Parameter
from aos.values.errors import ValueProblem, quoted
from aos.values.expressions import (
    UNIT,
    ListOf,
    MapOf,
    Record,
    Scalar,
    SetOf,
    Type,
    TypeRef,
    Variant,
    resolve,
)
from aos.values.json_text import parse_json
from aos.values.schema import Schema

SEND_EVENTS: Final = BY_PATH["/v1/events"][POST]
SEND_TITLE: Final = "Send an event"
COMMAND_BYTES_MAX: Final = 4_000
"""A longer text is not repeated in the command."""

PARTS_MAX: Final = 1_000
"""Parts of the largest example. A few small types that refer to each other can have very many."""

_PAGE: Final = ApiRoute(
    operation="send_form",
    method=GET,
    path="/send",
    scope=SEND,
    summary="Choose an event and fill it in.",
    query=(
        Parameter(name="schema", schema=NAME, help="The event's schema."),
        Parameter(name="find", schema=TEXT_KEY, help="A part of the names to list."),
    ),
)

_SCALAR_EXAMPLES: Final[Mapping[str, object]] = {
    "bool": False,
    "int": 1,
    "nat": 1,
    "dec128": "1.5",
    "bytes": "AA==",
    "text": "text",
    "time": "2026-01-02T03:04:05Z",
    "duration": "1m30s",
    "hash": f"blake3:{'0' * 64}",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "unit": None,
}


class SendForm:
    """The form of one event, and the list of events to choose from."""

    path = _PAGE.path

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def bytes_max(self) -> int:
        """A text as long as an event of the API, each of whose bytes may be three in a form."""
        return min(3 * event_body_max(self._services) + FORM_BYTES_MAX, BATCH_BYTES_MAX)

    def check(self, visit: Visit) -> None:
        """Raises: Problem: The scope is missing (403)."""
        check_scope(visit.caller, SEND_EVENTS)

    async def view(self, call: FormCall) -> FormView:
        """As ``PageForm``."""
        manifest = await call.world.read(lambda view: view.state.manifest)
        if call.request.method == POST:  # a text that was typed is shown again, whatever is wrong
            schema = call.fields.get("schema", "")
            return _form(call, manifest, schema, call.fields.get("value", ""))
        query = read_query(_PAGE, call.request.scope["query_string"])
        if "schema" not in query:
            return _list(call, manifest, query.get("find", ""))
        schema = query["schema"]
        if (problem := not_allowed(call.visit.caller, schema)) is not None:
            raise problem
        return _form(call, manifest, schema, None)

    async def take(self, call: FormCall) -> str:
        """As ``PageForm``; after every problem the form is shown again with the text."""
        schema, text = call.fields.get("schema"), call.fields.get("value")
        if schema is None or text is None:
            raise Problem(400, "form_is_malformed", "the form: expected schema and value")
        try:
            seq = await self._sent(call, schema, text)
        except Problem as problem:
            raise FormMisfitError(problem) from None
        except AosError as error:
            misfit = problem_of(error, self._services.folder.path)
            if not isinstance(error, Busy):
                misfit.detail += (
                    " (the event may have been sent: send the form again, it makes no second event)"
                )
            raise FormMisfitError(misfit) from error
        return f"{call.base}/record/{seq}"

    async def _sent(self, call: FormCall, schema: str, text: str) -> int:
        data = text.encode()
        if len(data) > (bytes_max := event_body_max(self._services)):
            raise too_large(bytes_max)  # not parsed: that may take seconds
        is_large = len(data) > LARGE_BYTES
        value = await asyncio.to_thread(_parsed, text) if is_large else _parsed(text)
        content = json.dumps([schema, value], sort_keys=True).encode()
        body = {
            "schema": schema,
            "value": value,
            "submission_id": f"page-{call.id}-{hashlib.sha256(content).hexdigest()[:32]}",
        }
        api_call = ApiCall(
            route=SEND_EVENTS, caller=call.visit.caller, query={"wait": DURABLE}, headers={},
            body=json_schema.read(SEND_EVENTS.body or {}, body), data=data,
        )  # fmt: skip
        reply = await HANDLERS[SEND_EVENTS.operation](self._services, api_call)
        document = getattr(reply, "document", None)
        assert isinstance(document, dict)
        seq: int = document["seq"]
        return seq


def _parsed(text: str) -> Any:
    try:
        return parse_json(text, max_bytes=BATCH_BYTES_MAX, max_items=ITEMS_MAX)
    except ValueProblem as problem:
        raise Problem(400, "body_is_malformed", f"JSON: {problem}") from None


def routed(manifest: Effective | None, caller: Token) -> dict[str, list[str]]:
    """Return the events that are open at ingress and that a caller may send, with the workflows
    that take each."""
    workflows_by_event: dict[str, list[str]] = {}
    if manifest is None:
        return workflows_by_event
    for route in manifest.subscriptions:
        if manifest.is_open(route.event) and not_allowed(caller, route.event) is None:
            workflows = workflows_by_event.setdefault(route.event, [])
            if route.workflow not in workflows:
                workflows.append(route.workflow)
    return dict(sorted(workflows_by_event.items()))


def _list(call: FormCall, manifest: Effective | None, find: str) -> FormView:
    events = [
        {"schema": schema, "workflows": workflows}
        for schema, workflows in routed(manifest, call.visit.caller).items()
        if find.casefold() in schema.casefold()
    ]
    own_events = [event for event in events if not _is_of_package(str(event["schema"]))]
    return FormView(
        title=SEND_TITLE,
        document={"events": events},
        template="send",
        template_values={
            "schema": None, "find": find, "own": own_events,
            "others": [event for event in events if event not in own_events],
        },
    )  # fmt: skip


def _is_of_package(schema: str) -> bool:
    """Whether a schema is built in or of a package, and not of the manifest's author."""
    return is_system(schema) or schema.startswith("aos/")


def _form(call: FormCall, manifest: Effective | None, schema: str, typed: str | None) -> FormView:
    """Return the form of one event. ``typed`` is the text that was sent; None at first, when the
    form begins with an example.

    Raises:
        Problem: At first, if the world has no such event.
    """
    is_too_large = False
    if typed is None:
        effective = _manifest_with(manifest, schema)
        example = example_value(effective.schemas[schema], effective.schemas)
        is_too_large = example is None and effective.schemas[schema].type != UNIT
        typed = "{}" if is_too_large else json.dumps(example, ensure_ascii=False, indent=2)
    text = typed.replace("\r\n", "\n")
    workflows = routed(manifest, call.visit.caller).get(schema, [])
    is_sealing = manifest is not None and schema in manifest.sealing
    effects = _effects(schema, workflows, is_sealing=is_sealing)
    return FormView(
        title=SEND_TITLE,
        document={
            "action": "send", "schema": schema, "workflows": workflows, "effects": effects,
            "example": text,
        },
        command=_command(schema, text, call.world_option),
        submit="Send it",
        effects=effects,
        fields={"schema": schema},
        back=f"{call.base}{SendForm.path}",
        template="send",
        template_values={
            "schema": schema,
            "workflows": workflows,
            "is_too_large": is_too_large,
            "text": [text[at : at + TEXT_MAX] for at in range(0, len(text), TEXT_MAX)],
            "rows": min(max(text.count("\n") + 2, 6), 30),
        },
    )  # fmt: skip


def _manifest_with(manifest: Effective | None, schema: str) -> Effective:
    """Return the manifest, which has an event of this schema.

    Raises:
        Problem: There is none (404, 409).
    """
    if manifest is None:
        raise Problem(
            409, Rule.WORLD_HAS_NO_MANIFEST.value,
            "this world has no manifest yet (apply one: aos apply PATH)",
        )  # fmt: skip
    if schema in CONTINUATIONS:
        raise Problem(404, Rule.EVENT_SCHEMA_IS_UNKNOWN.value, f"{schema} {ONLY_DELIVERED}")
    if schema not in manifest.schemas:
        raise Problem(
            404, Rule.EVENT_SCHEMA_IS_UNKNOWN.value,
            f"event schema {quoted(schema)} is not in the manifest in force (Send an event lists "
            "those that a workflow takes)",
        )  # fmt: skip
    if not manifest.is_open(schema):
        raise Problem(403, Rule.EVENT_IS_INTERNAL.value, f"{schema} {ONLY_OWN_STEPS}")
    return manifest


def _effects(schema: str, workflows: Sequence[str], *, is_sealing: bool) -> list[str]:
    takers = ", ".join(workflows)
    effects = [
        f"The journal gets one record with the event, which goes to {takers}."
        if workflows
        else f"The journal gets one record with the event. It reaches no cell: no workflow takes "
        f"{schema}.",
        "An event cannot be taken back.",
        "Sent again with the same content, this form makes no second event.",
    ]
    if is_sealing:
        effects.append(
            "Its sealed fields need ciphertext, which the command makes: aos send --seal KEYRING."
        )
    return effects


def _command(schema: str, text: str, world_option: tuple[str, str]) -> list[str]:
    """Return the words of the command with the text of the form, or with ``JSON`` for a text that
    is long or no JSON."""
    word = "JSON"
    with contextlib.suppress(ValueProblem):
        value = parse_json(text, max_bytes=COMMAND_BYTES_MAX)
        word = json.dumps(value, ensure_ascii=False)
    if schema.startswith("-") or word.startswith("-"):
        return ["aos", "send", *world_option, "--", schema, word]
    return ["aos", "send", schema, word, *world_option]


class SendLinks:
    """The addresses of forms for the events that a caller may send."""

    def __init__(self, links: PageLinks, manifest: Effective | None, caller: Token) -> None:
        self._links = links
        self._manifest = manifest
        self._caller = caller

    def of_definition(self, name: str) -> list[PageButton]:
        """Return the link to the form of an event that a workflow takes; empty for other names."""
        if name not in routed(self._manifest, self._caller):
            return []
        return [PageButton("Send one…", self._links.to(SendForm.path, schema=name))]


def example_value(schema: Schema, schemas: Mapping[str, Schema]) -> object | None:
    """Return an example of a type as authoring JSON, to begin with (PG-71): JSON that the schema
    reads; None if it would have more than ``PARTS_MAX`` parts.

        {"record": {"order_id": text, "items": list of Item, "note": option of text}}
        {"order_id": "text", "items": [{"sku": "text", "quantity": 1}], "note": null}

    ``schemas`` has those that it refers to. Options are null; lists, sets and maps have one item;
    of a variant it is the first arm that an event from outside may have.
    """
    try:
        return _Example(schemas).of(schema.type)
    except _ExampleTooLargeError:
        return None


class _ExampleTooLargeError(Exception):
    pass


class _Example:
    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._types = {name: schema.type for name, schema in schemas.items()}
        self._parts_left = PARTS_MAX

    def of(self, type_: Type) -> object:
        self._parts_left -= 1
        if self._parts_left < 0:
            raise _ExampleTooLargeError
        match resolve(type_, self._types):
            case Scalar(name):
                return _SCALAR_EXAMPLES[name]
            case Record(fields):
                return {name: self.of(field) for name, field in fields}
            case Variant(arms):
                return self._arm(arms)
            case ListOf(item) | SetOf(item):
                return [self.of(item)]
            case MapOf(key, item) if key.name in ("int", "nat"):
                return [[self.of(key), self.of(item)]]
            case MapOf(key, item):
                return {str(self.of(key)): self.of(item)}
        return None  # an option

    def _arm(self, arms: tuple[tuple[str, Type], ...]) -> object:
        plain_arms = [(tag, type_) for tag, type_ in arms if not _is_continuation(type_)]
        tag, type_ = (plain_arms or arms)[0]
        return tag if resolve(type_, self._types) == UNIT else {tag: self.of(type_)}


def _is_continuation(type_: Type) -> bool:
    return isinstance(type_, TypeRef) and type_.name in CONTINUATIONS
