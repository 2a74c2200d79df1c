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

from aos.errors import BadUsage, excerpt
from aos.host.executors.limiter import Limit
from aos.manifest.names import LINEAR, is_name, is_run_by_node
from aos.node.rates import BURST_MAX, EXAMPLES, interval_of
from aos.node.webhooks import Webhook
from aos.read.index.indexed_workflows import ATTRIBUTES_MAX, SearchSettings
from aos.read.views.linear_view import LINEAR_NAMES
from aos.read.where.attributes import OF_EVERY_CELL
from aos.store.plain_files import PlainFolder

FILE_NAME: Final = "node.toml"
BYTES_MAX: Final = 256 * 1024

CONCURRENCY_MAX: Final = 1_000_000

_PATH: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_]*(\.[A-Za-z_$][A-Za-z0-9_]*)*")
_ATTRIBUTE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_STATE_PATH: Final = re.compile(r"[^\s\"=<>!^(),.]+(\.[^\s\"=<>!^(),.]+)*")
_RUN_KEYS: Final = ("executors", "workers", "allow_http")
_EFFECT_KEYS: Final = ("concurrency", "rate", "burst", "by")

SEQ_MAX: Final = 2**63 - 1
SECRET_PREFIX: Final = b"whsec_"
_WEBHOOK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WEBHOOK_KEYS: Final = ("url", "schemas", "secret", "from")
_URL: Final = re.compile(r"https?://[^\s/?#@]+([/?][^\s#]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTable:
    """Executors and workers of this world, besides those that the options of ``aos node`` name, in
    the same form (N-68). Files are next to ``node.toml`` unless their path is absolute."""

    executors: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    allow_http: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The content of ``node.toml``. ``limits`` are by the effect's name."""

    limits: Mapping[str, Limit] = field(default_factory=dict)
    run: RunTable = RunTable()
    webhooks: tuple[Webhook, ...] = ()
    search: SearchSettings = field(default_factory=dict)


def read_settings(path: Path) -> NodeSettings:
    """Read the settings of the world in ``path``; without a file, the defaults.

    Raises:
        BadUsage: The file cannot be read, is not TOML, or has an unknown key or an invalid value.
    """
    file = path / FILE_NAME
    try:
        with PlainFolder.at_user_path(path) as folder:
            table = tomllib.loads(folder.read(FILE_NAME, BYTES_MAX).decode())
    except FileNotFoundError:
        return NodeSettings()
    except OSError as error:
        raise BadUsage(f"{file}: the file cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadUsage(f"{file}: the file is not TOML: {excerpt(str(error))}") from error
    return _Reading(file).settings(table)


def _is_schema(name: object) -> bool:
    return isinstance(name, str) and is_name(name)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Checks the parsed TOML and makes settings of it."""

    file: Path

    def settings(self, table: Mapping[str, Any]) -> NodeSettings:
        self._check_keys(table, ("effects", "run", "webhooks", "search"), "")
        limits = {}
        for name, value in self._table(table.get("effects", {}), "effects").items():
            key_path = f'effects."{name}"'
            if not is_name(name) or is_run_by_node(name):
                raise self._invalid(key_path, "an effect such as com.acme/charge@1", repr(name))
            limits[name] = self._limit(self._table(value, key_path), key_path)
        webhooks = self._table(table.get("webhooks", {}), "webhooks")
        return NodeSettings(
            limits=limits,
            run=self._run(self._table(table.get("run", {}), "run")),
            webhooks=tuple(self._webhook(name, webhooks[name]) for name in sorted(webhooks)),
            search={
                name: self._attributes(name, value)
                for name, value in self._table(table.get("search", {}), "search").items()
            },
        )

    def _run(self, table: Mapping[str, Any]) -> RunTable:
        self._check_keys(table, _RUN_KEYS, "run")
        for key, names in table.items():
            if not isinstance(names, list) or not all(
                isinstance(name, str) and name for name in names
            ):
                raise self._invalid(f"run.{key}", "a list of texts", repr(names))
        return RunTable(
            executors=tuple(map(self._spec, table.get("executors", ()))),
            workers=tuple(map(self._spec, table.get("workers", ()))),
            allow_http=tuple(table.get("allow_http", ())),
        )

    def _spec(self, spec: str) -> str:
        """A file of effects, in ``path/to/file.py:attribute``, with its whole path."""
        file, colon, attribute = spec.rpartition(":")
        is_file = colon and file.endswith(".py")
        return f"{self.file.parent.absolute() / file}:{attribute}" if is_file else spec

    def _attributes(self, workflow: str, value: object) -> Mapping[str, str]:
        key_path = f'search."{workflow}"'
        if not is_name(workflow):
            raise self._invalid(key_path, "a workflow such as shop/order@1", repr(workflow))
        attributes = self._table(value, key_path)
        if len(attributes) > ATTRIBUTES_MAX:
            raise self._invalid(
                key_path, f"at most {ATTRIBUTES_MAX} attributes", str(len(attributes))
            )
        for name, path in attributes.items():
            if name in OF_EVERY_CELL or (workflow == LINEAR and name in LINEAR_NAMES):
                raise self._invalid(
                    f"{key_path}.{name}", "a name that is not one of every cell", name
                )
            if not _ATTRIBUTE.fullmatch(name):
                raise self._invalid(
                    key_path, "names of letters, digits and underscores", repr(name)
                )
            if not isinstance(path, str) or not _STATE_PATH.fullmatch(path):
                expected = "a path into the state, such as customer.id"
                raise self._invalid(f"{key_path}.{name}", expected, repr(path))
        return dict(attributes)

    def _webhook(self, name: str, value: object) -> Webhook:
        key_path = f'webhooks."{name}"'
        if not _WEBHOOK.fullmatch(name):
            expected = "a name of 1 to 64 letters, digits, dots, dashes and underscores"
            raise self._invalid(key_path, expected, repr(name))
        table = self._table(value, key_path)
        self._check_keys(table, _WEBHOOK_KEYS, key_path)
        url, schemas = table.get("url"), table.get("schemas")
        if not isinstance(url, str) or not _URL.fullmatch(url):
            expected = "a URL with http:// or https://, without user and password"
            # It may have a token in it.
            value = "another text" if isinstance(url, str) else repr(url)
            raise self._invalid(f"{key_path}.url", expected, value)
        if not isinstance(schemas, list) or not schemas or not all(map(_is_schema, schemas)):
            expected = 'names of schemas, such as ["shop/OrderShipped@1"]'
            raise self._invalid(f"{key_path}.schemas", expected, repr(schemas))
        first = self._integer(table, "from", SEQ_MAX, key_path) if "from" in table else None
        secret = self._secret(table.get("secret"), f"{key_path}.secret")
        return Webhook(name=name, url=url, schemas=frozenset(schemas), secret=secret, first=first)

    def _secret(self, value: object, key_path: str) -> bytes:
        """Read the file of a secret, next to the settings unless its path is absolute."""
        expected = "a file, mode 0600, with whsec_ and base64 of 24 to 64 bytes"
        if not isinstance(value, str) or not value:
            raise self._invalid(key_path, expected, repr(value))
        path = self.file.parent / value
        try:
            with PlainFolder.at_user_path(path.parent) as folder:
                file_stat = folder.check_file(path.name)
                if file_stat is None:
                    raise self._invalid(key_path, expected, f"no file {path}")
                if stat.S_IMODE(file_stat.st_mode) & 0o077:
                    mode = f"mode {stat.S_IMODE(file_stat.st_mode):04o} of {path}"
                    raise self._invalid(key_path, expected, mode)
                text = folder.read(path.name, BYTES_MAX).strip()
        except OSError as error:
            raise self._invalid(key_path, expected, f"{path}: {error.strerror}") from error
        try:
            secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
        except ValueError:
            secret = b""
        if not text.startswith(SECRET_PREFIX) or not 24 <= len(secret) <= 64:
            raise self._invalid(key_path, expected, f"something else in {path}")
        return secret

    def _limit(self, table: Mapping[str, Any], key_path: str) -> Limit:
        self._check_keys(table, _EFFECT_KEYS, key_path)
        if not {"concurrency", "rate"} & set(table):
            raise self._invalid(key_path, "concurrency or rate", "neither")
        if "burst" in table and "rate" not in table:
            raise self._invalid(f"{key_path}.burst", "a rate with it", "none")
        concurrency = burst = None
        if "concurrency" in table:
            concurrency = self._integer(table, "concurrency", CONCURRENCY_MAX, key_path)
        if "burst" in table:
            burst = self._integer(table, "burst", BURST_MAX, key_path)
        return Limit(
            concurrency=concurrency,
            interval_ns=self._interval_ns(table.get("rate"), f"{key_path}.rate"),
            burst=burst or 1,
            by=self._paths(table.get("by", []), f"{key_path}.by"),
        )

    def _interval_ns(self, value: object, key_path: str) -> int:
        if value is None:
            return 0
        interval_ns = interval_of(value)
        if interval_ns is None:
            raise self._invalid(key_path, EXAMPLES, repr(value))
        return interval_ns

    def _paths(self, value: object, key_path: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(
            isinstance(path, str) and _PATH.fullmatch(path) for path in value
        ):
            raise self._invalid(
                key_path, 'paths of the params, such as ["merchant.id"]', repr(value)
            )
        return tuple(value)

    def _integer(self, table: Mapping[str, Any], key: str, maximum: int, key_path: str) -> int:
        number = table[key]
        if type(number) is not int or not 1 <= number <= maximum:
            expected = f"a whole number from 1 to {maximum:,}"
            raise self._invalid(f"{key_path}.{key}", expected, repr(number))
        return number

    def _table(self, value: object, key_path: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._invalid(key_path, "a table", repr(value))
        return value

    def _check_keys(self, table: Mapping[str, Any], keys: Iterable[str], key_path: str) -> None:
        known_keys = list(keys)
        for key in table:
            if key not in known_keys:
                near = difflib.get_close_matches(key, known_keys, n=1, cutoff=0.0)
                subject = f"{key_path}.{key}" if key_path else key
                raise BadUsage(
                    f"{subject} is not a key",
                    location=str(self.file),
                    expected=f"one of {', '.join(known_keys)}",
                    hint=f"did you mean {near[0]}?",
                )

    def _invalid(self, key_path: str, expected: str, actual: str) -> BadUsage:
        return BadUsage(
            key_path, location=str(self.file), expected=expected, actual=excerpt(actual)
        )
