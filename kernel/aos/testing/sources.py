"""Load the manifest that a test names, a path, nodes or a loaded one (spec/testing.md, T-2, T-3),
and run its modules in one sandbox for all worlds of a process (T-7).

The files of a manifest are read from disk again only if one of them has changed (T-7).

A guest needs a larger stack than a test's thread has (``aos.sandbox.stack``), and a sandbox must
not be used by two threads at the same time. So one thread has both, and compiled modules stay
cached after the world that needed them first.
"""

from __future__ import annotations

import copy
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar

from nacl.signing import SigningKey

from aos.core.journal.ports import Call, Ran
from aos.errors import BadUsage, Damage, Refused
from aos.host.apply.manifest_files import AIR_FOLDER, AIR_SUFFIX, read_manifest_files
from aos.manifest.keys import key_text
from aos.manifest.load import Loaded, ManifestProblems, Problem, load
from aos.manifest.names import NODE
from aos.sandbox.cache import standard_cache
from aos.sandbox.engine import Sandbox
from aos.sandbox.inspect import check_module
from aos.sandbox.stack import big_stacks
from aos.values.cbor import encode
from aos.values.digests import Hash, derive, digest, hash_text
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

Node: TypeAlias = Mapping[str, Any]
Source: TypeAlias = str | os.PathLike[str] | Sequence[Node] | Loaded

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and time of the last change of a file."""

LOADED_MAX: Final = 64
"""Number of cached manifests. A world with a cached manifest is created without loading it."""

READINGS_MAX: Final = 64

INTERRUPTED_S: Final = 1.0
"""How long a call may run after its caller was interrupted, before another thread runs modules."""

_loaded: OrderedDict[Hash, Loaded] = OrderedDict()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    files: dict[str, bytes]
    stamps: dict[str, Stamp]
    air: frozenset[str]


_readings: dict[Path, _Reading] = {}


def signing_key(name: str) -> SigningKey:
    """The test key of the world (``node``), the operator or an executor, derived from its name."""
    return SigningKey(derive("aos testing key", encode(name), 32))


def approver_key(name: str) -> SigningKey:
    """The test key of an approver. An executor of the same name has another one."""
    return signing_key(f"approver {name}")


WORLD_KEY: Final = signing_key(NODE)
OPERATOR_NAME: Final = "operator"
OPERATOR_KEY: Final = signing_key("the operator of a test")


def loaded(
    source: Source, modules: Mapping[str, bytes] | None = None, *, abi: str | None = None
) -> Loaded:
    """Load and check a manifest, or return the cached one. ``abi`` is the ABI assumed for modules
    that declare none.

    Raises:
        BadUsage: The path does not exist, or ``modules`` has a name that is not in the nodes.
        ManifestProblems: All problems of the manifest.
    """
    if isinstance(source, Loaded):
        manifest = source
    else:
        files, problems = _files(source, modules)
        files = {name: _with_test_keys(name, data) for name, data in files.items()}
        manifest = _checked(files, problems, abi)
    SHARED.add(manifest.modules)
    return manifest


def _files(
    source: str | os.PathLike[str] | Sequence[Node], modules: Mapping[str, bytes] | None
) -> tuple[dict[str, bytes], list[Problem]]:
    if isinstance(source, str | os.PathLike):
        if modules is not None:
            raise BadUsage(
                "modules= is only for a list of nodes: a manifest on disk names its module files"
            )
        return read_files(Path(source))
    return _of_nodes(source, modules or {}), []


def _of_nodes(nodes: Sequence[Node], modules: Mapping[str, bytes]) -> dict[str, bytes]:
    node_copies = [copy.deepcopy(dict(node)) for node in nodes]
    files: dict[str, bytes] = {}
    for node in node_copies:
        name = str(node.get("name"))
        if node.get("$kind") == "defmodule" and name in modules:
            path = f"{len(files)}.wasm"
            node["runtime"]["artifact"]["path"] = path
            files[f"air/{path}"] = bytes(modules[name])
    strangers = sorted(set(modules) - {str(node.get("name")) for node in node_copies})
    if strangers:
        raise BadUsage(f"modules: no node is named {', '.join(strangers)}")
    files["air/nodes.air.json"] = json.dumps(node_copies).encode()
    return files


def _checked(files: Mapping[str, bytes], problems: Sequence[Problem], abi: str | None) -> Loaded:
    parts = (part for item in sorted(files.items()) for part in item)
    key = digest("aos testing manifest", abi, *parts)
    manifest = _loaded.get(key)
    if manifest is not None and not problems:
        _loaded.move_to_end(key)
        return manifest
    try:
        manifest = load(files, check=check_module, abi=abi)
    except ManifestProblems as refused:
        raise ManifestProblems([*problems, *refused.problems]) from None
    if problems:
        raise ManifestProblems(problems)
    _loaded[key] = manifest
    if len(_loaded) > LOADED_MAX:
        _loaded.popitem(last=False)
    return manifest


def _with_test_keys(name: str, data: bytes) -> bytes:
    """An AIR file in which the manifest's executors and approvers have keys that the test can sign
    with."""
    is_named = b'"executors"' in data or b'"governance"' in data
    if not name.endswith(".json") or not is_named:
        return data
    try:
        value: Any = parse_json(data.decode("utf-8"), max_bytes=len(data))
    except (UnicodeDecodeError, ValueProblem):
        return data  # ``load`` reports its problems
    for node in value if isinstance(value, list) else [value]:
        if isinstance(node, dict) and node.get("$kind") == "manifest":
            _give_keys(node.get("executors"), signing_key)
            block = node.get("governance")
            if isinstance(block, dict):
                _give_keys(block.get("approvers"), approver_key)
    return json.dumps(value).encode()


def _give_keys(entries: object, key_of: Callable[[str], SigningKey]) -> None:
    for entry in _dicts_in(entries):
        if isinstance(entry.get("public_key"), str) and isinstance(entry.get("name"), str):
            entry["public_key"] = key_text(bytes(key_of(entry["name"]).verify_key))


def _dicts_in(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def read_files(path: Path) -> tuple[dict[str, bytes], list[Problem]]:
    """Cached ``read_manifest_files``. A manifest with problems is not cached.

    Raises:
        BadUsage: ``path`` does not exist.
    """
    path = path.absolute()
    cached = _readings.get(path)
    if cached is not None and _is_as_before(path, cached):
        return cached.files, []
    files, problems = read_manifest_files(path)
    # A folder without air/ is searched completely and may be a project: it is never cached.
    if not problems and (path.is_file() or (path / AIR_FOLDER).is_dir()):
        stamps = _stamps(path, files)
        if stamps is not None:
            if len(_readings) >= READINGS_MAX:
                _readings.pop(next(iter(_readings)))
            _readings[path] = _Reading(files=files, stamps=stamps, air=_air_files(path))
    return files, problems


def _is_as_before(path: Path, cached: _Reading) -> bool:
    return _air_files(path) == cached.air and _stamps(path, cached.files) == cached.stamps


def _air_files(path: Path) -> frozenset[str]:
    if path.is_file():
        return frozenset()
    return frozenset(map(str, (path / AIR_FOLDER).rglob(f"*{AIR_SUFFIX}")))


def _stamps(path: Path, names: Iterable[str]) -> dict[str, Stamp] | None:
    """The files' stamps; None if one of them no longer exists."""
    root = path.parent if path.is_file() else path
    stamps: dict[str, Stamp] = {}
    for name in names:
        try:
            stat = (root / name).stat()
        except OSError:
            return None
        stamps[name] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return stamps


class SharedSandbox:
    """A module runner. Its methods may only be called from code that ``on_module_thread`` runs."""

    def __init__(self) -> None:
        self._process = 0
        self._thread = 0
        self._threads = 0
        self._lock = threading.Lock()
        self._modules: dict[Hash, bytes] = {}
        self._todo: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._sandbox: Sandbox | None = None

    def add(self, modules: Mapping[Hash, bytes]) -> None:
        self._modules.update(modules)

    def run(self, call: Call) -> Ran:
        if threading.get_ident() != self._thread:
            raise Refused("the test that ran this module was interrupted")
        if self._sandbox is None:
            self._sandbox = Sandbox(self._load, cache=standard_cache(outside=None))
        return self._sandbox.run(call)

    @property
    def thread(self) -> int:
        """The number of the thread that runs modules: another one if a process was forked, or if
        the thread does not end the call of a test that was interrupted."""
        return self._started()[0]

    def _started(self) -> tuple[int, SimpleQueue[Callable[[], None] | None]]:
        with self._lock:
            if self._process != os.getpid():
                self._start()
            return self._threads, self._todo

    def on_module_thread(self, function: Callable[[], T]) -> T:
        """Call ``function`` on the thread that runs modules, and wait; on that thread itself, just
        call it. Raises what it raises."""
        if threading.get_ident() == self._thread and self._process == os.getpid():
            return function()
        number, todo = self._started()
        ended: Future[T] = Future()

        def do() -> None:
            try:
                ended.set_result(function())
            except BaseException as problem:  # noqa: BLE001  # carried over to the caller
                ended.set_exception(problem)

        todo.put(do)
        try:
            return ended.result()
        finally:
            if not ended.done():
                self._interrupted(ended, number)

    def _start(self) -> None:
        # A forked process has a copy of this object, but not its thread.
        self._process = os.getpid()
        self._threads += 1
        self._todo = SimpleQueue()
        self._sandbox = None
        thread = threading.Thread(
            target=_serve, args=(self._todo,), name="aos-testing", daemon=True
        )
        with big_stacks():
            thread.start()
        assert thread.ident is not None
        self._thread = thread.ident

    def _interrupted(self, ended: Future[T], number: int) -> None:
        """Leave the thread if it does not end a call that its caller no longer waits for."""
        wait([ended], INTERRUPTED_S)
        with self._lock:
            if not ended.done() and number == self._threads:
                self._todo.put(None)
                self._process = self._thread = 0

    def _load(self, hash: Hash) -> bytes:
        module_bytes = self._modules.get(hash)
        if module_bytes is None:
            raise Damage(f"module {hash_text(hash)}: its bytes were never given to a world")
        return module_bytes


def _serve(todo: SimpleQueue[Callable[[], None] | None]) -> None:
    while (do := todo.get()) is not None:
        do()
        del do  # a world may end while the thread waits


SHARED = SharedSandbox()
