"""The ASGI application of the page: from a request to a page or its document (spec/page.md).

    address -> host and origin -> session -> page -> query -> document -> template or JSON

Rule 1: a request is refused at the first check that it fails.

Rule 2: no route but a form of a node (``page_forms``) changes anything; every answer has the
headers of ``page_headers``.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route, Router

from aos.errors import AosError
from aos.node.access import Door, check_origin, headers_of
from aos.node.bodies import JSON, KIB, PROBLEM, ClientGoneError
from aos.node.problems import Problem, problem_of
from aos.node.queries import read_query
from aos.node.reading import LIST_IS_LATE
from aos.node.routes import GET, ApiRoute
from aos.node.sessions import Session
from aos.node.tokens import READ
from aos.page.live_stream import LiveStreams, resumed
from aos.page.page_additions import ShownPage, additions
from aos.page.page_forms import FormCall, PageForm, Visit, check_same_site
from aos.page.page_headers import RAW
from aos.page.page_links import PageLinks
from aos.page.page_search import FOUND_MAX, search
from aos.page.page_table import NAVIGATION, NOT_LIVE, PAGES, Page, known_navigation, part_navigation
from aos.page.page_text import json_bytes, render
from aos.page.page_world import PageWorld, document_or_404
from aos.page.page_worlds import PageWorlds
from aos.read.operations.operation import SEQ, Parameter
from aos.read.views.view import View

if TYPE_CHECKING:  # a page without a node does not import it
    from aos.page.node_parts import NodeParts

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

ADDRESS_BYTES_MAX: Final = 8 * KIB
HTML: Final = "text/html; charset=utf-8"
LINES: Final = "application/jsonl"
BYTES: Final = "application/octet-stream"
SUFFIX: Final = ".json"
OPEN: Final = "/open"
STATIC: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
LIVE: Final = "/live"
_LIVE_ROUTE: Final = ApiRoute(
    operation="stream_figures",
    method=GET,
    path=LIVE,
    scope=READ,
    summary="Stream the head and the figures of a world.",
    query=(Parameter(name="after", schema=SEQ, help="The record that the browser shows."),),
)
_METHODS: Final = ("GET", "HEAD")
_FORM_METHODS: Final = (*_METHODS, "POST")
_ONCE: Final = frozenset({b"host", b"origin", b"cookie", b"last-event-id"})


class BrowserSession(Protocol):
    """Decides who may see the page. ``open_session`` answers ``/open`` for ``methods``; ``check``
    returns the caller, if there are several, and ``stream_session`` the session of a long request,
    which
    ends it."""

    methods: tuple[str, ...]

    def check(self, _scope: Scope, cookie: str | None) -> Visit | None: ...

    def stream_session(self, _scope: Scope) -> AbstractContextManager[Session]: ...

    async def open_session(self, request: Request) -> Response: ...


class _PageQuery(dict[str, object]):
    """The query of a page; a parameter that was not given is None."""

    def __missing__(self, name: str) -> None:
        return None


class PageApp:
    """The application, for worlds and one kind of session. ``hidden`` is a path that readers of the
    page do not learn; ``node`` are the parts that only a node has. ``root`` is the address of the
    one world of a page that is mounted, which has all paths of its own below it (PG-134)."""

    def __init__(
        self,
        worlds: PageWorlds,
        session: BrowserSession,
        *,
        hidden: Path | None = None,
        node: NodeParts | None = None,
        root: str = "",
    ) -> None:
        self._root = root
        self._open = f"{root}{OPEN}"
        self._worlds = worlds
        self._hidden = hidden
        self._session = session
        self._node = node
        pages = (*PAGES, *node.pages) if node is not None else PAGES
        self._posting = [Route(self._open, session.open_session, methods=list(session.methods))]
        if node is not None:
            self._posting += [
                Route(f"/w/{{world}}{form.path}", self._of_form(form), methods=list(_FORM_METHODS))
                for form in node.forms.forms
            ]
        self._live = LiveStreams(worlds.sentence)
        self._router = Router(
            [
                Route("/", self._front),
                *self._posting,
                *(Route(f"{at}/static/{{name}}", _static) for at in dict.fromkeys(("", root))),
                *([Route(root, self._with_slash)] if root else ()),
                *(Route(f"/w/{{world}}{page.path}", self._of(page)) for page in pages),
                Route("/w/{world}", self._of(PAGES[0])),
                Route("/w/{world}/search", self._search),
                Route(f"/w/{{world}}{LIVE}", self._stream),
                Route("/w/{world}/value/{word}/bytes", self._bytes),
            ],
            redirect_slashes=False,
            default=_unknown,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *RAW]
            await send(message)

        is_json = _wants_json(scope)
        problem = await self._answered(scope, receive, send_with_headers, is_json=is_json)
        if problem is not None:
            refusal = self._refusal(scope, problem, is_json=is_json)
            await refusal(scope, receive, send_with_headers)

    async def _answered(
        self, scope: Scope, receive: Receive, send: Send, *, is_json: bool
    ) -> Problem | None:
        """Answer a request; return the problem if there is one, and nothing was sent."""
        try:
            self._check(scope)
            if scope["path"].endswith(SUFFIX):
                scope["path"] = scope["path"].removesuffix(SUFFIX) or "/"
            scope["is_json"] = is_json
            async with self._worlds.using(scope["path"]):
                await self._router(scope, receive, send)
        except ClientGoneError:
            return None
        except Problem as problem:
            return problem
        except AosError as error:
            return self._problem(error)
        except Exception as error:  # noqa: BLE001  # our own bug must not end the page
            traceback.print_exception(error, file=sys.stderr)
            return Problem(500, "page_has_a_bug", f"a bug of the page: {type(error).__name__}")
        return None

    def _check(self, scope: Scope) -> None:
        """Check everything about a request that is the same for all pages (PG-22 to PG-24).

        Raises:
            Problem: It fails a check.
        """
        address = len(scope["raw_path"]) + len(scope["query_string"])
        if address > ADDRESS_BYTES_MAX:
            raise Problem(
                414, "address_is_too_long",
                f"the address: expected at most {ADDRESS_BYTES_MAX:,} bytes, found {address:,}",
            )  # fmt: skip
        headers = headers_of(scope["headers"], _ONCE)
        check_origin(Door(*scope["server"]), headers, scope["scheme"])
        path, method = scope["path"], scope["method"]
        methods = self._methods(scope)
        if method not in methods:
            raise Problem(
                405, "method_is_not_allowed",
                f"this page: expected {' or '.join(methods)}, found {method[:20]}",
                headers={"allow": ", ".join(methods)},
            )  # fmt: skip
        if not self._is_for_everyone(path):
            cookie = headers.get(b"cookie")
            cookie_text = None if cookie is None else cookie.decode("latin-1")
            scope["visit"] = self._session.check(scope, cookie_text)
        if method == "POST":
            check_same_site(headers)

    def _is_for_everyone(self, path: str) -> bool:
        """Return whether a path needs no session: it shows nothing of a world."""
        if path == self._open or (self._root and path == self._root):
            return True
        return path.startswith(("/static/", f"{self._root}/static/"))

    def _methods(self, scope: Scope) -> Sequence[str]:
        """Return the methods of a path."""
        for route in self._posting:
            if route.matches(scope)[0] is not Match.NONE:
                return sorted(route.methods or _METHODS)
        return _METHODS

    # Pages

    async def _front(self, request: Request) -> Response:
        document = await self._worlds.document()
        if request.scope["is_json"]:
            return Response(json_bytes(document), media_type=JSON)
        values = {"document": document, "title": "Worlds", "root": self._root, **_NOWHERE}
        return _html("worlds", values)

    async def _with_slash(self, request: Request) -> Response:
        """Lead to the first page of a mounted world: browsers send its cookie only below it."""
        query = request.url.query
        return RedirectResponse(f"{self._root}/?{query}" if query else f"{self._root}/", 303)

    def _of(self, page: Page) -> Handler:
        async def answer(request: Request) -> Response:
            return await self._page(page, request)

        return answer

    async def _page(self, page: Page, request: Request) -> Response:
        world = self._worlds.world_of(request.path_params["world"])
        if self._node is not None:
            self._node.check(page, request.scope["visit"])
        page_query = read_query(page.route, request.scope["query_string"])
        if self._node is not None:
            self._node.check_query(page, request.scope["visit"], page_query)
        target = await world.read(
            lambda view: page.target_of(view, page_query, request.path_params)
        )
        query = {**page.of_document(page_query), **target}
        if request.scope["is_json"]:
            document = await document_or_404(world.document(page.operation, query))
            if page.is_lines:
                data = b"".join(map(json_bytes, document["records"]))
                return Response(data, media_type=LINES)
            return Response(json_bytes(document), media_type=JSON)
        # Before the document, which then has every record that the page names (PG-125).
        values = await self._values(
            request,
            world,
            page.title,
            at=page_query.get("at"),
            is_live=page.template not in NOT_LIVE,
        )
        document = await document_or_404(world.list_document(page.operation, query))
        if self._node is not None:
            world_option = world.world_option(str(request.base_url))
            values |= await self._node.additions(page, world, world_option)
        links = values["links"]
        assert isinstance(links, PageLinks)
        shown_page = ShownPage(
            world=world, template=page.template, query=query, page_query=page_query,
            path=request.path_params, document=document, links=links,
        )  # fmt: skip
        values |= await additions(shown_page)
        return _html(
            page.template,
            values
            | {
                "document": document,
                "given": _PageQuery(page_query),
                "place": world.world_option(str(request.base_url)),
                "path": request.path_params,
                "command": page.words(query, world.world_option(str(request.base_url))),
                "json_address": self._json_address(request),
            },
        )

    def _of_form(self, form: PageForm) -> Handler:
        async def answer(request: Request) -> Response:
            assert self._node is not None
            world = self._worlds.world_of(request.path_params["world"])
            call = FormCall(
                world=world, request=request, visit=request.scope["visit"],
                base=f"/w/{world.slug}", world_option=world.world_option(str(request.base_url)),
            )  # fmt: skip
            values = await self._values(request, world, "")
            return await self._node.forms.answer(form, call, values)

        return answer

    async def _search(self, request: Request) -> Response:
        world = self._worlds.world_of(request.path_params["world"])
        [text] = parse_qs(request.url.query).get("q", [""])[:1]
        text = text.strip()
        base = f"/w/{world.slug}"
        is_json = request.scope["is_json"]
        # Before the document, as for other pages.
        values = {} if is_json else await self._values(request, world, "Search")
        cells = await world.beginning(text, FOUND_MAX + 1) if text else None
        document = await world.read(
            lambda view: search(view, text, PageLinks(base, view.state), cells)
        )
        if is_json:
            return Response(json_bytes(document), media_type=JSON)
        if len(document["found"]) == 1:
            return RedirectResponse(document["found"][0]["address"], status_code=303)
        return _html("search", values | {"document": document, "q": text})

    async def _stream(self, request: Request) -> Response:
        """Stream the figures of a world; ``/live.json`` returns them once."""
        world = self._worlds.world_of(request.path_params["world"])
        query = read_query(_LIVE_ROUTE, request.scope["query_string"])
        if world.bundle is not None:
            raise Problem(404, "bundle_is_not_live", "a bundle does not change: it has no stream")
        figures = await self._live.figures_of(world).now()
        if request.scope["is_json"]:
            return Response(json_bytes(figures), media_type=JSON)
        last_seq = resumed(request.headers.get("last-event-id"), query.get("after"))
        session = self._session.stream_session(request.scope)
        return self._live.stream(world, last_seq, session)

    async def _bytes(self, request: Request) -> Response:
        world = self._worlds.world_of(request.path_params["world"])
        word = request.path_params["word"]
        data = await world.bytes_of(word)
        name = "".join(sign for sign in word if sign.isascii() and sign.isalnum())[-64:]
        return Response(
            data,
            media_type=BYTES,
            headers={"content-disposition": f'attachment; filename="{name}.bin"'},
        )

    async def _values(
        self,
        request: Request,
        world: PageWorld,
        title: str,
        *,
        at: int | None = None,
        is_live: bool = False,
    ) -> dict[str, object]:
        """Return what every page of a world shows. ``live`` is the address of the stream of a page
        that shows the world as it is now."""
        base = f"/w/{world.slug}"
        is_live = is_live and at is None and world.bundle is None

        def take(view: View) -> dict[str, object]:
            links = PageLinks(base, view.state, at)
            return {
                "title": title,
                "root": self._root,
                "world": world,
                "index": world.index(),
                "links": links,
                "head": view.state.next_seq - 1,
                "now_ns": view.now_ns,
                "at": at,
                **self._of_visit(request.scope, links, part_navigation(view.state), at=at),
                "live": f"{base}{LIVE}" if is_live else None,
            }

        return await world.read(take)

    def _of_visit(
        self, scope: Scope, links: PageLinks, parts: list[tuple[str, str]], *, at: int | None
    ) -> dict[str, object]:
        """Return the navigation, with that of the parts of the world, the buttons and the forms of
        events of a caller."""
        visit = scope.get("visit")
        overview, cells, *last_links = NAVIGATION
        world_links = [overview, cells, *parts, *last_links]
        if self._node is None or visit is None:
            return {"navigation": world_links, "buttons": None, "sender": None}
        return {
            "navigation": [*world_links, *self._node.navigation(visit)],
            "buttons": None if at else self._node.buttons(visit, links),
            "sender": None if at else self._node.sender(visit, links),
        }

    def _json_address(self, request: Request) -> str:
        path: str = request.scope["raw_path"].decode("latin-1").rstrip("/")
        if path == self._root:
            path += "/"  # NAME.json would be the name of another world
        query: str = request.url.query
        return f"{path}{SUFFIX}?{query}" if query else f"{path}{SUFFIX}"

    # Refusals

    def _retry_link(self, scope: Scope, problem: Problem) -> tuple[str, str] | None:
        """Return a link that continues after a refusal: the form for a token, or the page whose
        button was pressed."""
        if self._node is None:
            return None
        if problem.rule == "session_is_missing":
            return "Open the page of this node", self._open
        if scope["method"] == "POST" and scope["path"].startswith("/w/"):
            return "Open the page again", scope["raw_path"].decode("latin-1").rpartition("/")[0]
        return None

    def _problem(self, error: AosError) -> Problem:
        """Return the problem of an error, with the sentence of the command line."""
        problem = problem_of(error, self._hidden or _NO_PATH, unknown=404)
        if self._hidden is None:
            problem.detail = str(error)
        return problem

    def _refusal(self, scope: Scope, problem: Problem, *, is_json: bool) -> Response:
        headers = dict(problem.headers)
        if problem.retry_after_s is not None:
            headers["retry-after"] = str(problem.retry_after_s)
        if is_json:
            data = json_bytes(problem.document())
            return Response(data, problem.status, headers, media_type=PROBLEM)
        world = None
        if problem.status != 401:
            slug = scope["path"].split("/")[2:3] if scope["path"].startswith("/w/") else []
            world = self._worlds.find(slug[0]) if slug else None
        values = {
            "title": _TITLES.get(problem.status, "Not possible"),
            "problem": problem,
            "past": None,
            "again": self._retry_link(scope, problem),
            "index": None,
            "root": self._root,
            **_NOWHERE,
        }
        if world is not None:
            links = PageLinks(f"/w/{world.slug}", None)
            parts = known_navigation(world)
            values |= {
                "world": world, "links": links, **self._of_visit(scope, links, parts, at=None)
            }  # fmt: skip
            values["past"] = _past(scope) if problem.rule == "cell_is_unknown" else None
            values["index"] = world.index() if problem.rule == LIST_IS_LATE else None
        answer = _html("problem", values)
        answer.status_code = problem.status
        answer.headers.update(headers)
        return answer


_NO_PATH: Final = Path("/dev/null")
"""No world's folder: the paths stay in sentences for a user of this machine."""

_NOWHERE: Final[dict[str, object]] = {"world": None, "links": None, "at": None}
_TITLES: Final = {
    401: "Not open",
    403: "Not allowed",
    404: "Not found",
    410: "Not here any more",
    500: "Damaged",
    503: "Not now",
}


def _html(template: str, values: dict[str, object]) -> Response:
    return Response(render(template, values), media_type=HTML)


def _wants_json(scope: Scope) -> bool:
    """Whether the answer is JSON: by the end of the path, or by ``Accept``."""
    if scope["path"].endswith(SUFFIX):
        return True
    accept = b",".join(value.lower() for name, value in scope["headers"] if name == b"accept")
    return JSON.encode() in accept and b"text/html" not in accept


async def _static(request: Request) -> Response:
    file = static_file(request.path_params["name"])
    if file is None:
        raise _unknown_path(request.scope["path"])
    data, media = file
    return Response(data, media_type=media)


def static_file(name: str) -> tuple[bytes, str] | None:
    """Return a file that pages refer to, and its media type; None if there is none."""
    if name not in STATIC:
        return None
    return files("aos.page").joinpath("static", name).read_bytes(), STATIC[name]


def _past(scope: Scope) -> str | None:
    """Return the address of the trace of a cell that is not there: it may have been deleted."""
    base, separator, cell = scope["raw_path"].decode("latin-1").partition("/cell/")
    # The path of a form has one part more.
    return f"{base}/trace/{'/'.join(cell.split('/')[:3])}" if separator else None


async def _unknown(scope: Scope, _receive: Receive, _send: Send) -> None:
    raise _unknown_path(scope["path"])


def _unknown_path(path: str) -> Problem:
    return Problem(404, "path_is_unknown", f"there is no page at {path[:200]}")
