"""The parts of a URL that may be secrets (X-69a): services often have tokens in a path or a query.

An executor that has the URL of a service keeps these parts out of receipts, errors, progress and
printed lines. Words that are usual in paths are no secrets, so an error that names the model
``qwen-v1`` stays readable although the path has ``/v1``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit

from aos.errors import BadUsage
from aos.worker.worker_secrets import VALUE_BYTES_MIN, SecretValue

_BETWEEN_WORDS: Final = re.compile(r"[-_.~]+")
_BETWEEN_PARTS: Final = re.compile(r"[/;=:]+")
_VERSION: Final = re.compile(r"v\d{1,3}(?:(?:alpha|beta|rc|p)\d{0,3})?|\d{1,4}|v", re.IGNORECASE)

_WORDS: Final = """
accounts ai api apis arweave aws azure base bc beacon blocks chain chat cloud collector compatible
completion completions compute count custom data default deployment deployments dev endpoint
endpoints engine engines eth ethereum event events evm ext external gateway generate graphql hook
hooks http https inference ingest input internal json jsonrpc legacy live llm local main mainnet
messages mode model models network networks node nodes open openai opentelemetry otlp output post
private prod production project projects proxy public publishers query receive region regions
responses rest root rpc serve server serverless service services staging stream telemetry test
testnet tokenize tokenizer traces tx upload uploads webhook webhooks
"""
_PUBLIC_WORDS: Final = frozenset(_WORDS.split())
"""Words of paths that are the same for all users of a service, in lower case."""


def url_secrets(url: str, name: str) -> tuple[SecretValue, ...]:
    """The parts of a URL that may be secrets, as secrets of this name: user, password, segments of
    the path other than usual words, values of the query. Each as it is and percent-decoded.

    Raises:
        BadUsage: It is no URL. The text names ``name`` alone.
    """
    try:
        parsed = urlsplit(url)
        _ = parsed.port  # raises if it is none
    except ValueError:  # its text may quote user and password
        raise BadUsage(f"{name}: expected a URL, such as https://service.example/path") from None
    spellings: dict[str, None] = {}
    for part in _parts(parsed):
        for spelt in (part, unquote(part), unquote_plus(part)):
            if len(spelt.encode("utf-8", "replace")) >= VALUE_BYTES_MIN:
                spellings.setdefault(spelt)
    return tuple(
        SecretValue(name=name, value=spelt.encode("utf-8", "replace"), hosts=None)
        for spelt in spellings
    )


def _parts(parsed: SplitResult) -> Iterator[str]:
    userinfo, _, _ = parsed.netloc.rpartition("@")
    if userinfo:
        yield userinfo
        yield from userinfo.split(":", 1)
        # As it goes out, in `Authorization: Basic …`.
        yield base64.b64encode(unquote(userinfo).encode()).decode("ascii")
    for segment in parsed.path.split("/"):
        if not is_usual(segment):
            yield segment
            yield from (part for part in _BETWEEN_PARTS.split(segment) if not is_usual(part))
    for pair in re.split(r"[&;]", parsed.query):
        key, equals, value = pair.partition("=")
        yield value if equals else key
    yield parsed.fragment


def is_usual(segment: str) -> bool:
    """Whether a segment of a path consists of usual words and versions, such as ``openai`` or
    ``v1``: such a segment is no secret."""
    words = _BETWEEN_WORDS.split(unquote(segment).lower())
    return all(not word or word in _PUBLIC_WORDS or _VERSION.fullmatch(word) for word in words)
