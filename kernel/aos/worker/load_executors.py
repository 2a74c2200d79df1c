"""``package.module:attr``, ``path/to/file.py:attr`` or a registered name -> Executors (X-41)."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from aos import extensions
from aos.errors import AosError, BadUsage
from aos.extensions import Registration
from aos.manifest.names import NODE
from aos.worker.api import EffectFunction
from aos.worker.executors import Executors
from aos.worker.redacted_output import show

_MOVED: Final = {
    f"aos.executors.{name}": name
    for name in ("arweave", "evm", "llm", "machine", "portal", "vault", "workspace")
}
"""Modules that an earlier release had -> the name that ``--executors`` takes instead."""

_NAME: Final = re.compile(r"[^:/]+(?<!\.py)")
"""A name that a package registers: no MODULE:ATTR, and no path of a file."""

_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")


def load(spec: str) -> Executors:
    """Import the object that ``spec`` names. One effect, or a list of them, becomes an Executors.

    For a module or file, adds the working directory to ``sys.path``, and for a file its folder. A
    name without a colon is one that an installed package registers (EP-3).

    Raises:
        BadUsage: The module, file, attribute or name is missing, fails to import, or has another
            type.
    """
    registration = _registration(spec) if _NAME.fullmatch(spec) else None
    if registration is not None:
        source, value = spec, registration.load()
    else:
        source, value = _imported(spec)
    executors = _executors(source, value)
    if executors is not None:
        return executors
    problem = (
        f"expected an Executors, a list of effects or one effect, found {type(value).__name__}"
    )
    if registration is not None:
        raise registration.unusable(problem)
    raise BadUsage(f"executors {spec!r}: {problem}")


def _imported(spec: str) -> tuple[str, object]:
    """The module or file of ``spec``, and the object."""
    source, colon, attribute = spec.rpartition(":")
    if not colon or not source or not attribute:
        raise BadUsage(
            f"executors {spec!r}: expected MODULE:ATTR or FILE.py:ATTR, such as shop.effects:shop"
        )
    cwd = str(Path.cwd())
    if cwd not in sys.path:
        sys.path.insert(0, cwd)
    is_file = source.endswith(".py")
    module = _from_file(spec, Path(source)) if is_file else _from_module(spec, source)
    return source, _attribute(spec, module, attribute)


def _registration(name: str) -> Registration:
    registration = extensions.find(extensions.EXECUTORS, name, subject=f"executors {name!r}")
    if registration is None:
        names = extensions.registered_names(extensions.EXECUTORS)
        raise BadUsage(
            f"executors {name!r}: expected MODULE:ATTR or FILE.py:ATTR, such as shop.effects:shop, "
            f"or a name that an installed package registers: {', '.join(names) or 'there is none'}"
        )
    return registration


def _from_module(spec: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            if name in _MOVED:
                raise BadUsage(
                    f"executors {spec!r}: these executors are now --executors {_MOVED[name]}"
                ) from error
            raise BadUsage(
                f"executors {spec!r}: no module {missing!r} is importable from {Path.cwd()} "
                "(check the name, or give the file: path/to/file.py:attr)"
            ) from error
        raise _failed(spec, error) from error
    except AosError as error:
        raise BadUsage(f"executors {spec!r}: {error}") from error
    except Exception as error:
        raise _failed(spec, error) from error


def _from_file(spec: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise BadUsage(f"executors {spec!r}: there is no file {path.resolve()}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # A file with the name of a loaded module (http.py) must not replace that module.
    name = path.stem if path.stem not in sys.modules else f"aos_executors_{path.stem}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise BadUsage(f"executors {spec!r}: {path} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    try:
        module_spec.loader.exec_module(module)
    except AosError as error:
        raise BadUsage(f"executors {spec!r}: {error}") from error
    except Exception as error:
        raise _failed(spec, error) from error
    return module


def _failed(spec: str, error: Exception) -> BadUsage:
    show(error)
    return BadUsage(f"executors {spec!r}: {extensions.import_failure(error)}")


def _attribute(spec: str, module: ModuleType, dotted: str) -> object:
    attribute: object = module
    for name in dotted.split("."):
        try:
            attribute = getattr(attribute, name)
        except AttributeError as error:
            offered = sorted(
                key
                for key, value in vars(module).items()
                if isinstance(value, Executors | EffectFunction)
            )
            hint = f" (it has {', '.join(offered)})" if offered else ""
            raise BadUsage(f"executors {spec!r}: there is no {dotted!r} in it{hint}") from error
    return attribute


def _executors(source: str, value: object) -> Executors | None:
    """The ``Executors`` that a value is or makes; None if it is of another type."""
    if isinstance(value, Executors):
        return value
    name = _name_of(source)
    if isinstance(value, EffectFunction):
        return Executors(name, [value])
    if isinstance(value, list | tuple):
        return Executors(name, value)
    return None


def _name_of(source: str) -> str:
    """The default name of an Executors: that of its file or module."""
    last = Path(source).stem if source.endswith(".py") else source.rpartition(".")[2]
    name = _UNFIT.sub("-", last).lstrip("0123456789._-")
    return f"{name or 'effects'}-worker" if name in ("", NODE) else name
