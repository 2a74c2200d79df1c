"""``DIR/node.toml``: what a node limits, read strictly (spec/node-work.md, N-65 to N-67)."""

from __future__ import annotations

import base64
import difflib
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aos.audit.search.attributes import OF_EVERY_CELL
from aos.audit.views.linear_view import LINEAR_NAMES
from aos.errors import BadUsage, excerpt, sentence
from aos.host.executors.limiter import Limit
from aos.manifest.builtins import is_run_by_node
from aos.manifest.linear_names import LINEAR
from aos.manifest.names import is_name
from aos.node.rates import BURST_MAX, EXAMPLES, interval_of
from aos.node.search.indexed import ATTRIBUTES_MAX, SearchSettings
from aos.node.webhooks import Webhook
from aos.store.plain_files import PlainFolder

FILE_NAME: Final = "node.toml"
BYTES_MAX: Final = 256 * 1024

CONCURRENCY_MAX: Final = 1_000_000

_PATH: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_]*(\.[A-Za-z_$][A-Za-z0-9_]*)*")
_ATTRIBUTE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_STATE_PATH: Final = re.compile(r"[^\s\"=<>!^(),.]+(\.[^\s\"=<>!^(),.]+)*")
_EFFECT_KEYS: Final = ("concurrency", "rate", "burst", "by")

SEQ_MAX: Final = 2**63 - 1
SECRET_PREFIX: Final = b"whsec_"
_WEBHOOK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WEBHOOK_KEYS: Final = ("url", "schemas", "secret", "from")
_URL: Final = re.compile(r"https?://[^\s/?#@]+([/?][^\s#]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The content of ``node.toml``. ``limits`` are by the effect's name."""

    limits: Mapping[str, Limit] = field(default_factory=dict)
    webhooks: tuple[Webhook, ...] = ()
    search: SearchSettings = field(default_factory=dict)


def read_settings(path: Path) -> NodeSettings:
    """Read the settings of the world in ``path``; without a file, the defaults.

    Raises:
        BadUsage: The file cannot be read, is not TOML, or has an unknown key or an invalid value.
    """
    file = path / FILE_NAME
    try:
        with PlainFolder.named(path) as folder:
            found = tomllib.loads(folder.read(FILE_NAME, BYTES_MAX).decode())
    except FileNotFoundError:
        return NodeSettings()
    except OSError as error:
        raise BadUsage(f"{file}: the file cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadUsage(f"{file}: the file is not TOML: {excerpt(str(error))}") from error
    return _Reading(file).settings(found)


def _is_schema(name: object) -> bool:
    return isinstance(name, str) and is_name(name)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Checks the parsed TOML and makes settings of it."""

    file: Path

    def settings(self, found: Mapping[str, Any]) -> NodeSettings:
        self._known(found, ("effects", "webhooks", "search"), "")
        limits = {}
        for name, given in self._table(found.get("effects", {}), "effects").items():
            where = f'effects."{name}"'
            if not is_name(name) or is_run_by_node(name):
                raise self._invalid(where, "an effect such as com.acme/charge@1", repr(name))
            limits[name] = self._limit(self._table(given, where), where)
        webhooks = self._table(found.get("webhooks", {}), "webhooks")
        return NodeSettings(
            limits=limits,
            webhooks=tuple(self._webhook(name, webhooks[name]) for name in sorted(webhooks)),
            search={
                name: self._attributes(name, given)
                for name, given in self._table(found.get("search", {}), "search").items()
            },
        )

    def _attributes(self, workflow: str, found: object) -> Mapping[str, str]:
        where = f'search."{workflow}"'
        if not is_name(workflow):
            raise self._invalid(where, "a workflow such as shop/order@1", repr(workflow))
        given = self._table(found, where)
        if len(given) > ATTRIBUTES_MAX:
            raise self._invalid(where, f"at most {ATTRIBUTES_MAX} attributes", str(len(given)))
        for name, path in given.items():
            if name in OF_EVERY_CELL or (workflow == LINEAR and name in LINEAR_NAMES):
                raise self._invalid(f"{where}.{name}", "a name that is not one of every cell", name)
            if not _ATTRIBUTE.fullmatch(name):
                raise self._invalid(where, "names of letters, digits and underscores", repr(name))
            if not isinstance(path, str) or not _STATE_PATH.fullmatch(path):
                expected = "a path into the state, such as customer.id"
                raise self._invalid(f"{where}.{name}", expected, repr(path))
        return dict(given)

    def _webhook(self, name: str, found: object) -> Webhook:
        where = f'webhooks."{name}"'
        if not _WEBHOOK.fullmatch(name):
            expected = "a name of 1 to 64 letters, digits, dots, dashes and underscores"
            raise self._invalid(where, expected, repr(name))
        given = self._table(found, where)
        self._known(given, _WEBHOOK_KEYS, where)
        url, schemas = given.get("url"), given.get("schemas")
        if not isinstance(url, str) or not _URL.fullmatch(url):
            expected = "a URL with http:// or https://, without user and password"
            # It may have a token in it.
            found = "another text" if isinstance(url, str) else repr(url)
            raise self._invalid(f"{where}.url", expected, found)
        if not isinstance(schemas, list) or not schemas or not all(map(_is_schema, schemas)):
            expected = 'names of schemas, such as ["shop/OrderShipped@1"]'
            raise self._invalid(f"{where}.schemas", expected, repr(schemas))
        first = self._whole(given, "from", SEQ_MAX, where) if "from" in given else None
        secret = self._secret(given.get("secret"), f"{where}.secret")
        return Webhook(name=name, url=url, schemas=frozenset(schemas), secret=secret, first=first)

    def _secret(self, given: object, where: str) -> bytes:
        """Read the file of a secret, next to the settings unless its path is absolute."""
        expected = "a file, mode 0600, with whsec_ and base64 of 24 to 64 bytes"
        if not isinstance(given, str) or not given:
            raise self._invalid(where, expected, repr(given))
        path = self.file.parent / given
        try:
            with PlainFolder.named(path.parent) as folder:
                found = folder.check_file(path.name)
                if found is None:
                    raise self._invalid(where, expected, f"no file {path}")
                if stat.S_IMODE(found.st_mode) & 0o077:
                    mode = f"mode {stat.S_IMODE(found.st_mode):04o} of {path}"
                    raise self._invalid(where, expected, mode)
                text = folder.read(path.name, BYTES_MAX).strip()
        except OSError as error:
            raise self._invalid(where, expected, f"{path}: {error.strerror}") from error
        try:
            secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
        except ValueError:
            secret = b""
        if not text.startswith(SECRET_PREFIX) or not 24 <= len(secret) <= 64:
            raise self._invalid(where, expected, f"something else in {path}")
        return secret

    def _limit(self, given: Mapping[str, Any], where: str) -> Limit:
        self._known(given, _EFFECT_KEYS, where)
        if not {"concurrency", "rate"} & set(given):
            raise self._invalid(where, "concurrency or rate", "neither")
        if "burst" in given and "rate" not in given:
            raise self._invalid(f"{where}.burst", "a rate with it", "none")
        concurrency = burst = None
        if "concurrency" in given:
            concurrency = self._whole(given, "concurrency", CONCURRENCY_MAX, where)
        if "burst" in given:
            burst = self._whole(given, "burst", BURST_MAX, where)
        return Limit(
            concurrency=concurrency,
            interval_ns=self._interval_ns(given.get("rate"), f"{where}.rate"),
            burst=burst or 1,
            by=self._paths(given.get("by", []), f"{where}.by"),
        )

    def _interval_ns(self, given: object, where: str) -> int:
        if given is None:
            return 0
        interval_ns = interval_of(given)
        if interval_ns is None:
            raise self._invalid(where, EXAMPLES, repr(given))
        return interval_ns

    def _paths(self, given: object, where: str) -> tuple[str, ...]:
        if not isinstance(given, list) or not all(
            isinstance(each, str) and _PATH.fullmatch(each) for each in given
        ):
            raise self._invalid(where, 'paths of the params, such as ["merchant.id"]', repr(given))
        return tuple(given)

    def _whole(self, table: Mapping[str, Any], key: str, most: int, where: str) -> int:
        number = table[key]
        if type(number) is not int or not 1 <= number <= most:
            expected = f"a whole number from 1 to {most:,}"
            raise self._invalid(f"{where}.{key}", expected, repr(number))
        return number

    def _table(self, given: object, where: str) -> Mapping[str, Any]:
        if not isinstance(given, dict):
            raise self._invalid(where, "a table", repr(given))
        return given

    def _known(self, table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
        known = list(keys)
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
                place = f"{where}.{key}" if where else key
                raise BadUsage(
                    sentence(
                        f"{place} is not a key",
                        where=str(self.file),
                        expected=f"one of {', '.join(known)}",
                        hint=f"did you mean {near[0]}?",
                    )
                )

    def _invalid(self, where: str, expected: str, found: str) -> BadUsage:
        return BadUsage(
            sentence(where, where=str(self.file), expected=expected, found=excerpt(found))
        )
