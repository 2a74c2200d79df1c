"""``Executors``: the functions that one worker process runs (X-41, L-40)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

from aos.errors import BadUsage
from aos.manifest.names import EXECUTOR_NAME, KERNEL, NODE
from aos.sealing.keyring import Keyring
from aos.sealing.keyring_file import KeyringFile
from aos.worker.api import EffectFunction, function_name
from aos.worker.step_api import StepFunction

Setup: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


def _is_executor_name(value: object) -> bool:
    is_ours = value in (NODE, KERNEL)
    return isinstance(value, str) and not is_ours and bool(EXECUTOR_NAME.fullmatch(value))


class Executors:
    """The functions that one worker process runs.

    Args:
        name: The name in ``manifest.executors[].name``, if it signs with its own key.
        functions: Functions made by ``@effect`` and handlers made by ``@step``, at most one for
            each effect and each name of a plan step.
        key_file: File with an Ed25519 seed in hex, readable only by its owner. With it the worker
            process signs receipts as ``name``; without it the node signs them as ``node``.
        keyring: A ``Keyring``, or the file of one, which is read when the worker starts and again
            when it has changed. With it, functions get plaintexts at the sealed places of their
            params, and the worker seals those of their results (spec/sealed.md).
        setup: Makes an async context manager, entered once before the first call and left at the
            end, on the event loop of the async functions. It yields ``ctx.resource``.

    Raises:
        BadUsage: The name is invalid, there is no function, or two functions have the same effect.
    """

    def __init__(
        self,
        name: str,
        functions: Iterable[EffectFunction[Any] | StepFunction[Any]],
        *,
        key_file: str | Path | None = None,
        keyring: Keyring | str | Path | None = None,
        setup: Setup | None = None,
    ) -> None:
        if not _is_executor_name(name):
            raise BadUsage(
                f"executors {name!r}: expected a name of letters, digits and . _ / @ - that begins "
                f"with a letter, other than {NODE} and {KERNEL}, which are the node itself"
            )
        self.name = name
        functions_by_name = _by_name(name, functions)
        self.effects = {
            function.name: function
            for function in functions_by_name.values()
            if isinstance(function, EffectFunction)
        }
        self.steps = {
            function.name: function
            for function in functions_by_name.values()
            if isinstance(function, StepFunction)
        }
        self.key_file = None if key_file is None else Path(key_file)
        self._keyring = (
            keyring if isinstance(keyring, Keyring | None) else KeyringFile(Path(keyring))
        )
        self.setup = setup
        if setup is not None and not callable(setup):
            raise BadUsage(
                f"executors {name!r}: setup: expected a function that makes an async context "
                "manager, such as one made by contextlib.asynccontextmanager (without calling it)"
            )

    def keyring(self) -> Keyring | None:
        """The keyring as it is now. Raises: BadUsage: Its file cannot be read, or is none."""
        keyring = self._keyring
        return keyring.keyring() if isinstance(keyring, KeyringFile) else keyring


def _by_name(
    name: str, functions: Iterable[EffectFunction[Any] | StepFunction[Any]]
) -> dict[str, EffectFunction[Any] | StepFunction[Any]]:
    functions_by_name: dict[str, EffectFunction[Any] | StepFunction[Any]] = {}
    for function in functions:
        if not isinstance(function, EffectFunction | StepFunction):
            raise BadUsage(
                f"executors {name!r}: expected functions made by @effect or @step, found "
                f"{function!r}"
                ' (put @effect("namespace/name@1") above it)'
            )
        if function.name in functions_by_name:
            kind = "effect" if isinstance(function, EffectFunction) else "step"
            raise BadUsage(
                f"executors {name!r}: {kind} {function.name} is there twice: "
                f"{function_name(functions_by_name[function.name].function)} and "
                f"{function_name(function.function)}"
            )
        functions_by_name[function.name] = function
    if not functions_by_name:
        raise BadUsage(f"executors {name!r}: expected at least one effect or step, found none")
    return functions_by_name
