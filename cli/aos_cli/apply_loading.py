"""Load the manifest that a user names, to apply or to propose it (spec/cli.md, C-21)."""

from __future__ import annotations

from pathlib import Path

from aos.author.build_record import project_built_at, refuse_stale_build
from aos.errors import BadUsage
from aos.host.apply.manifest_files import AIR_FOLDER, AIR_SUFFIX, load_manifest_files
from aos.host.folder.folder import WORLD_FILE
from aos.manifest.load import Loaded, ManifestProblems
from aos.shell_text import shell_word
from aos_cli.options import check_abi
from aos_cli.output import note


def load_named(path: Path, abi: str | None) -> Loaded:
    """Load the manifest at ``path``, a folder or a file.

    Raises:
        BadUsage: There is none, or it is the folder of a world.
        Refused: It was built from sources that have changed since.
        ManifestProblems: All its problems.
    """
    check_abi(abi)
    _check_path(path)
    project = project_built_at(path)
    if project is not None:
        refuse_stale_build(project)
        abi = abi or project.abi
    try:
        return load_manifest_files(path, abi=abi)
    except ManifestProblems as error:
        problems = f"{len(error.problems)} problems" if len(error.problems) > 1 else "1 problem"
        note(f"aos: the manifest at {path} has {problems}; nothing was applied", style="red")
        raise


def _check_path(path: Path) -> None:
    """Raise BadUsage for two paths that are often mistaken for a manifest's."""
    if (path / WORLD_FILE).is_file() and not (path / AIR_FOLDER).is_dir():
        raise BadUsage(
            f"{path}: expected a manifest, found the folder of a world "
            f"(aos apply PATH --world {shell_word(path)})"
        )
    if path.is_file() and not path.name.endswith(AIR_SUFFIX):
        raise BadUsage(f"{path}: expected a folder, or a file whose name ends in {AIR_SUFFIX}")
