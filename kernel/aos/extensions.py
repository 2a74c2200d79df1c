"""Objects that installed packages register under a name, by entry points (spec/extending.md).

Reading the entry points of an environment takes 40 ms, and loading one runs code of its package.
So callers ask for a name only if a user has given it, or list all of them only for a help text
(EP-1, EP-2).
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import aos
from aos.errors import AosError, BadUsage

COMMANDS: Final = "aos.commands"
EXECUTORS: Final = "aos.executors"

DISTRIBUTION: Final = "aos-kernel"
"""The distribution that has this package, and registers the executors and commands it ships."""

_SEPARATORS: Final = re.compile(r"[-_.]+")
_REQUIRED_NAME: Final = re.compile(r"\s*([A-Za-z0-9._-]+)")


class UnusableExtension(BadUsage):
    """An installed package registers an object that cannot be used. The text names the package."""


@dataclass(frozen=True, slots=True)
class Registration:
    """One name that an installed package registers."""

    entry: EntryPoint
    subject: str
    """The object for a message, such as ``executors 'shop'``."""

    @property
    def distribution(self) -> str:
        """The name of the package, as an installer takes it."""
        return self.entry.dist.name if self.entry.dist is not None else self.entry.module

    @property
    def package(self) -> str:
        """Name and version of the package."""
        version = self.entry.dist.version if self.entry.dist is not None else "without a version"
        return f"{self.distribution} {version}"

    @property
    def is_ours(self) -> bool:
        return _normal(self.distribution) == DISTRIBUTION

    def unusable(self, problem: str) -> UnusableExtension:
        """The error for an object that cannot be used, with the package that registers it."""
        return UnusableExtension(f"{self.subject} of the package {self.package}: {problem}")

    def load(self) -> object:
        """Import the object.

        Raises:
            UnusableExtension: Its package needs another release of aos, or fails to import.
        """
        requirement = self._unmet_requirement()
        if requirement is not None:
            raise self.unusable(
                f"it needs {requirement}, and this is {DISTRIBUTION} {aos.__version__} (install a "
                f"release of it for this aos: pip install --upgrade {self.distribution})"
            )
        try:
            return self.entry.load()
        except AosError as problem:
            raise self.unusable(str(problem)) from problem
        except (Exception, SystemExit) as problem:
            raise self.unusable(
                f"{import_failure(problem)} (install it again, or remove it: pip uninstall "
                f"{self.distribution})"
            ) from problem

    def _unmet_requirement(self) -> str | None:
        """The requirement of aos that the running release does not satisfy (EP-6)."""
        requirements = (self.entry.dist.requires if self.entry.dist is not None else None) or ()
        of_aos = [text for text in requirements if _required_name(text) == DISTRIBUTION]
        if not of_aos:
            return None
        # Most packages of an environment require no release of aos, and this takes 15 ms.
        from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

        for text in of_aos:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                return repr(text)
            is_for_here = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if is_for_here and not requirement.specifier.contains(
                aos.__version__, prereleases=True
            ):
                return f"{DISTRIBUTION}{requirement.specifier}"
        return None


def find(group: str, name: str, *, subject: str) -> Registration | None:
    """The registration of a name; None if no package has it.

    A name of ``aos`` itself stays its own, although another package registers it (EP-5).

    Raises:
        UnusableExtension: Two packages register it.
    """
    registrations = [Registration(entry, subject) for entry in _entries(group).get(name, ())]
    ours = [registration for registration in registrations if registration.is_ours]
    if len(ours or registrations) > 1:
        packages = sorted(registration.package for registration in registrations)
        raise UnusableExtension(
            f"{subject}: registered more than once, by the packages {' and '.join(packages)} "
            f"(remove one of them: pip uninstall {registrations[-1].distribution})"
        )
    return next(iter(ours or registrations), None)


def hidden(group: str, name: str, *, subject: str) -> list[Registration]:
    """Registrations by other packages of a name that ``aos`` itself has."""
    registrations = [Registration(entry, subject) for entry in _entries(group).get(name, ())]
    return [registration for registration in registrations if not registration.is_ours]


def registered_names(group: str) -> list[str]:
    """The names that installed packages register, sorted. Loads nothing."""
    return sorted(_entries(group))


def import_failure(error: BaseException) -> str:
    """Where the import of a module failed, and why, as a clause."""
    return f"importing it failed{_location(error)}: {type(error).__name__}: {error}"


def _location(error: BaseException) -> str:
    if isinstance(error, SyntaxError):  # its frames are those of Python's importer
        return "" if error.filename is None else f" at {error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""


@cache
def _entries(group: str) -> Mapping[str, list[EntryPoint]]:
    """The entry points by their name; of packages with the same name, the first one on the path."""
    by_name: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        by_name.setdefault(entry.name, []).append(entry)
    return by_name


def _required_name(requirement: str) -> str | None:
    match = _REQUIRED_NAME.match(requirement)
    return None if match is None else _normal(match[1])


def _normal(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()
