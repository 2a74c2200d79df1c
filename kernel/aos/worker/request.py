"""Params of ``sys/http.request@1`` -> a checked request, or the reason to refuse it (X-63)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpcore
import httpx

from aos.manifest.hosts import PORT_MAX, read_host
from aos.manifest.manifest_secrets import secret_name
from aos.values.errors import ValueProblem
from aos.worker.api import EffectContext
from aos.worker.failure import EffectFailed, NotConfigured
from aos.worker.http_settings import BAD_REQUEST, METHODS
from aos.worker.job import RequestContext
from aos.worker.worker_secrets import HOST_DENIED, UNAVAILABLE, SecretValue

URL_CHARS_MAX: Final = 8192
HEADERS_MAX: Final = 128
HEADER_BYTES_MAX: Final = 64 * 1024

KEYED_METHODS: Final = frozenset({"POST", "PATCH"})
OURS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of the connection, which a request may not set."""

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_HEADER_VALUE: Final = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")
_SCHEME_AND_PLACE: Final = re.compile(r"(?i:https?)://(?P<place>[^/?#]+)")
_PLACE: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]+)(:([1-9][0-9]{0,4})?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as sent. ``host`` is spelled as in the allow list: lower case, no brackets."""

    method: str
    host: str
    port: int
    url: httpcore.URL
    headers: list[tuple[bytes, bytes]] = field(repr=False)
    content: bytes | None = field(repr=False)


def secrets_of(params: Mapping[str, Any], ctx: EffectContext) -> Mapping[str, SecretValue]:
    """The secrets that the node sent with a task, by name: those that its headers use."""
    if all(header["$tag"] == "literal" for header in params["headers"].values()):
        return {}
    assert isinstance(ctx, RequestContext), "the node sends the values with the task"
    return ctx.named_secrets


def read_request(
    params: Mapping[str, Any], ctx: EffectContext, secrets: Mapping[str, SecretValue]
) -> Request:
    """Check the params of one request, and insert the values of secrets into its headers.

    Raises:
        EffectFailed: ``http_bad_request``; ``secret_host_denied`` if a secret may not be sent to
            the URL's host.
        NotConfigured: ``secret_unavailable``: the value of a secret is not valid in a header.
    """
    method, url = _method(params["method"]), _url(params["url"])
    host, port = _host(url), url.port or (443 if url.scheme == "https" else 80)
    for secret in secrets.values():
        if not secret.may_go_to(host, port):
            raise EffectFailed(HOST_DENIED, f"secret {secret.name} may not be sent to this host")
    content = _content(params, ctx)
    headers = _headers(params["headers"], method, ctx, secrets)
    size = () if content is None else ((b"Content-Length", b"%d" % len(content)),)
    return Request(
        method=method,
        host=host,
        port=port,
        url=httpcore.URL(
            scheme=url.raw_scheme, host=host.encode("ascii"), port=port, target=url.raw_path
        ),
        headers=[(b"Host", url.netloc), *headers, *size],
        content=content,
    )


def _method(method: str) -> str:
    if method not in METHODS:
        raise EffectFailed(
            BAD_REQUEST,
            f"method: expected one of {', '.join(sorted(METHODS))}, found {method!r:.40}",
        )
    return method


def _url(text: str) -> httpx.URL:
    start = _SCHEME_AND_PLACE.match(text) if len(text) <= URL_CHARS_MAX else None
    if start is None:
        raise EffectFailed(BAD_REQUEST, f"url: expected http://… or https://…, found {text!r:.80}")
    if "@" in start["place"]:
        # It would stay in the journal for ever.
        raise EffectFailed(BAD_REQUEST, "url: expected no user or password in it")
    if not _PLACE.fullmatch(start["place"]):  # httpx accepts all that int() accepts
        raise EffectFailed(BAD_REQUEST, f"url: expected a port of 1 to {PORT_MAX} or none")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise EffectFailed(BAD_REQUEST, f"url: {error}") from error
    if (url.port or 0) > PORT_MAX:
        raise EffectFailed(BAD_REQUEST, f"url: expected a port of 1 to {PORT_MAX} or none")
    return url


def _host(url: httpx.URL) -> str:
    try:
        return read_host(url.raw_host.decode("ascii"))
    except ValueProblem as problem:
        raise EffectFailed(BAD_REQUEST, f"url: {problem.message}") from problem


def _headers(
    param_headers: Mapping[str, Any],
    method: str,
    ctx: EffectContext,
    secrets: Mapping[str, SecretValue],
) -> list[tuple[bytes, bytes]]:
    sent: dict[str, tuple[bytes, bytes]] = {}
    for name, header in param_headers.items():
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name):
            raise EffectFailed(BAD_REQUEST, f"header {name!r:.80}: expected a token and plain text")
        if lower in OURS or lower.startswith("proxy-"):
            raise EffectFailed(BAD_REQUEST, f"header {name}: the node sets it, or leaves it out")
        if lower in sent:
            raise EffectFailed(BAD_REQUEST, f"header {name}: it is there twice")
        sent[lower] = (name.encode("ascii"), _value(name, header, secrets))
    sent.setdefault("accept", (b"Accept", b"*/*"))
    sent.setdefault("accept-encoding", (b"Accept-Encoding", b"gzip, deflate"))
    sent.setdefault("user-agent", (b"User-Agent", b"aos"))
    if method in KEYED_METHODS:
        key = ctx.idempotency_key.encode()
        sent.setdefault("idempotency-key", (b"Idempotency-Key", key))
    size = sum(len(name) + len(value) for name, value in sent.values())
    if len(sent) > HEADERS_MAX or size > HEADER_BYTES_MAX:
        raise EffectFailed(
            BAD_REQUEST,
            f"headers: expected at most {HEADERS_MAX} and {HEADER_BYTES_MAX} bytes, "
            f"found {len(sent)} and {size}",
        )
    return list(sent.values())


def _value(name: str, header: Mapping[str, Any], secrets: Mapping[str, SecretValue]) -> bytes:
    if header["$tag"] == "literal":
        text: str = header["$value"].strip()
        value = text.encode()
        if not _HEADER_VALUE.fullmatch(value):
            raise EffectFailed(BAD_REQUEST, f"header {name!r:.80}: expected a token and plain text")
        return value
    secret = secrets[secret_name(header["$value"]["alias"], header["$value"]["version"])]
    if not _HEADER_VALUE.fullmatch(secret.value):
        raise NotConfigured(
            UNAVAILABLE,
            f"secret {secret.name} holds characters that no header can have",
            "correct its value",
        )
    return secret.value.strip()


def _content(params: Mapping[str, Any], ctx: EffectContext) -> bytes | None:
    body: bytes | None = params["body"]
    if params["body_ref"] is None:
        return body
    if body is not None:
        raise EffectFailed(BAD_REQUEST, "expected body or body_ref, found both")
    return ctx.blob(params["body_ref"])
