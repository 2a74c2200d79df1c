"""The forms of a node's page: shown by GET, taken once by POST, then a redirect
(spec/page.md, PG-60 to PG-63).

GET  …/retry   a page that shows what will happen, with a form    changes nothing
POST …/retry   the form: checked, carried out once                303 to the record that came of it

Rule 1: a form is taken from the browser that it was made for, and from no page of another site.

Rule 2: a form has an id, and the same form with the same fields is carried out once, however often
it is sent.

Rule 3: a form that is not taken is shown again with its id and its fields.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from aos.node.bodies import JSON, KIB, LARGE_BYTES, BodyRoom, receive_body
from aos.node.problems import Problem
from aos.node.queries import pairs_of
from aos.node.tokens import Token
from aos.page.page_text import json_bytes, render
from aos.page.page_world import PageWorld

FORM_BYTES_MAX: Final = 4 * KIB
FIELDS_MAX: Final = 20
USED_MAX: Final = 1_024
"""Forms whose outcome is remembered. An older one that is sent again is judged by the world."""

FORM: Final = "form"
"""The field with a form's token."""

_FOREIGN: Final = "the form is not of this page, or the node has restarted (open the page again)"
_SHOWN_AGAIN: Final = (
    "nothing was done now: the form is of another browser, or the node has restarted since it was "
    "shown (read what will happen, and press the button again)"
)
_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Visit:
    """The maker of a request: the token, and the session of the browser; without one, the
    connection alone says who it is."""

    caller: Token
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FormView:
    """What a form shows before it is sent.

    ``document`` is the same for programs. ``effects`` are sentences about what will happen,
    ``facts`` fields of the thing that it happens to. ``command`` does the same as the ``submit``
    button. ``fields`` are hidden; ``template_values`` are values for a template of its own.
    """

    title: str
    document: Mapping[str, Any]
    command: Sequence[str] = ()
    submit: str = ""
    effects: Sequence[str] = ()
    facts: Sequence[tuple[str, Any]] = ()
    fields: Mapping[str, object] = field(default_factory=dict)
    back: str = ""
    template: str = "confirm"
    template_values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormCall:
    """One request to a form. ``base`` is the address of the world's pages, ``world_option`` the
    option of commands that names the world; ``fields`` and ``id`` are those of a POST."""

    world: PageWorld
    request: Request
    visit: Visit
    base: str
    world_option: tuple[str, str]
    fields: Mapping[str, str] = field(default_factory=dict)
    id: str = ""

    @property
    def path(self) -> Mapping[str, str]:
        return self.request.path_params


class FormMisfitError(Exception):
    """The form cannot be taken as it was filled in: it is shown again, with the problem."""

    def __init__(self, problem: str | Problem) -> None:
        super().__init__(str(problem))
        if isinstance(problem, str):
            problem = Problem(422, "form_is_invalid", problem)
        self.problem = problem


class PageForm(Protocol):
    """One form, at ``path`` below the world's address. Its POST has at most ``bytes_max`` bytes."""

    path: str

    @property
    def bytes_max(self) -> int: ...

    def check(self, visit: Visit) -> None:
        """Raises: Problem: This caller, or this node, cannot use the form (403)."""

    async def view(self, call: FormCall) -> FormView:
        """Return what the form shows. Nothing is changed. The call of a form that is shown again
        has the fields that were sent.

        Raises:
            AosError, Problem: There is no such thing, or it cannot be done.
        """

    async def take(self, call: FormCall) -> str:
        """Carry the form out, and return the address of what came of it.

        Raises:
            AosError, Problem: It was not carried out, or perhaps not (as the API says).
            FormMisfitError: A field is invalid, or the form can be sent again.
        """


class FormTokens:
    """Makes and checks the tokens of forms. A token is valid for one path in one browser, as long
    as this front runs."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def make(self, path: str, browser: str, id: str = "") -> str:
        """Return a token: an id, a new one unless it is given, and a MAC over it."""
        id = id or secrets.token_hex(16)
        return f"{id}.{self._mac(path, browser, id)}"

    def check(self, token: str, path: str, browser: str) -> str:
        """Return the id of a token. Raises: Problem: It is not of this path and browser (403)."""
        id, _, mac = token.partition(".")
        expected = self._mac(path, browser, id)
        if not hmac.compare_digest(mac.encode(errors="replace"), expected.encode()):
            raise Problem(403, "form_is_foreign", _FOREIGN)
        return id

    def _mac(self, path: str, browser: str, id: str) -> str:
        parts = f"{path}\0{browser}\0{id}".encode(errors="replace")
        return hmac.new(self._key, parts, hashlib.sha256).hexdigest()


class UsedForms:
    """The outcomes of forms by path, id and fields. A form that is sent again, also while it is
    carried out, has the outcome of the first time; after a failure it is carried out again.

    The path counts because a form that was sent to another one is shown again there with its id.
    """

    def __init__(self) -> None:
        self._outcomes: OrderedDict[str, asyncio.Task[str]] = OrderedDict()

    async def run_once(
        self, path: str, id: str, fields: Mapping[str, str], work: Callable[[], Awaitable[str]]
    ) -> str:
        """Return the outcome of ``work``, which runs unless it was done for this form. Raises as
        ``work``."""
        parts = json.dumps([path, id, fields], sort_keys=True).encode()
        key = hashlib.sha256(parts).hexdigest()

        async def outcome() -> str:
            try:
                return await work()
            except BaseException:
                self._outcomes.pop(key, None)
                raise

        task = self._outcomes.get(key)
        if task is None:
            task = self._outcomes[key] = asyncio.create_task(outcome())
            if len(self._outcomes) > USED_MAX:
                self._outcomes.popitem(last=False)
        return await asyncio.shield(task)  # a browser that goes away stops nothing


def check_same_site(headers: Mapping[bytes, bytes]) -> None:
    """Check that a page of this site has sent a POST: by ``Sec-Fetch-Site``, or where a browser
    does not send it, by ``Origin``.

    Raises:
        Problem: Another site has, or no one says (403).
    """
    site = headers.get(b"sec-fetch-site")
    host = headers.get(b"host", b"").lower()
    origins = (b"http://" + host, b"https://" + host)
    if site == b"same-origin" or (site is None and headers.get(b"origin", b"").lower() in origins):
        return
    raise Problem(403, "form_is_foreign", _FOREIGN)


async def read_form(request: Request, *, bytes_max: int, room: BodyRoom) -> dict[str, str]:
    """Receive a form and return its fields.

    Raises:
        Problem: It is longer (413), late (408), or no form with each field once (400).
        ClientGoneError: The browser went away.
    """
    with room.share() as take:
        body = await receive_body(request.receive, bytes_max=bytes_max, declared=None, take=take)
    pairs = _pairs(body) if len(body) < LARGE_BYTES else await asyncio.to_thread(_pairs, body)
    if pairs is None or len(dict(pairs)) < len(pairs):
        raise Problem(
            400, "form_is_malformed", "the form: expected name=value&… in UTF-8, each field once"
        )
    return dict(pairs)


def _pairs(body: bytes) -> list[tuple[str, str]] | None:
    try:
        return pairs_of(body, fields_max=FIELDS_MAX)
    except ValueError:
        return None


class PageForms:
    """All forms of a node's page. ``browser_of`` returns what names the browser of a request, and
    the value of ``Set-Cookie`` if it has to be named first."""

    def __init__(
        self,
        forms: Sequence[PageForm],
        tokens: FormTokens,
        room: BodyRoom,
        browser_of: Callable[[Request], tuple[str, str | None]],
    ) -> None:
        self.forms = tuple(forms)
        self._tokens = tokens
        self._room = room
        self._browser_of = browser_of
        self._used_forms = UsedForms()

    async def answer(
        self, form: PageForm, call: FormCall, values: Mapping[str, object]
    ) -> Response:
        """Answer a request to a form. ``values`` are those of every page of the world.

        Raises:
            AosError, Problem: As the form.
            ClientGoneError: The browser went away.
        """
        form.check(call.visit)
        if call.request.method != "POST":
            return await self._show(form, call, values)
        fields = await read_form(call.request, bytes_max=form.bytes_max, room=self._room)
        browser, _ = self._browser_of(call.request)
        token = fields.pop(FORM, "")
        id = token.partition(".")[0]
        filled_call = replace(call, fields=fields, id=id if _ID.fullmatch(id) else "")
        path = call.request.scope["path"]
        try:
            self._tokens.check(token, path, browser)
        except Problem as foreign:
            foreign.detail = _SHOWN_AGAIN
            return await self._show(form, filled_call, values, problem=foreign)
        try:
            address = await self._used_forms.run_once(
                path, id, fields, lambda: form.take(filled_call)
            )
        except FormMisfitError as misfit:
            return await self._show(form, filled_call, values, problem=misfit.problem)
        return RedirectResponse(address, status_code=303)

    async def _show(
        self,
        form: PageForm,
        call: FormCall,
        values: Mapping[str, object],
        problem: Problem | None = None,
    ) -> Response:
        is_json = call.request.scope["is_json"]
        if is_json and problem is not None:
            raise problem
        view = await form.view(call)
        if is_json:
            return Response(json_bytes(view.document), media_type=JSON)
        path = call.request.scope["path"]
        browser, cookie = self._browser_of(call.request)
        page = {
            **values,
            "title": view.title,
            "view": view,
            "problem": problem,
            "address": path,
            "form": self._tokens.make(path, browser, call.id),
            **view.template_values,
        }
        answer = Response(render(view.template, page), media_type="text/html; charset=utf-8")
        if problem is not None:
            answer.status_code = problem.status
            if problem.retry_after_s is not None:
                answer.headers["retry-after"] = str(problem.retry_after_s)
        if cookie is not None:
            answer.headers["set-cookie"] = cookie
        return answer
