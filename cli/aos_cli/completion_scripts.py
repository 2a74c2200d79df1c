"""The scripts with which bash, zsh and fish complete ``aos``, and their installation (C-14)."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from aos.errors import BadUsage, either
from aos_cli.entry import COMPLETE

SCRIPTS: Final = {
    "bash": f"""\
_aos_completion() {{
    local IFS=$'\\n'
    COMPREPLY=($(aos {COMPLETE} bash "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null))
}}
complete -o default -F _aos_completion aos
""",
    "zsh": f"""\
#compdef aos
_aos_completion() {{
    local -a entries
    entries=("${{(@f)$(aos {COMPLETE} zsh "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}")
    if [[ -n "${{entries[1]}}" ]]; then
        _describe -V aos entries
    else
        _files
    fi
}}
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
compdef _aos_completion aos
""",
    "fish": f"""\
function __aos_completion
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l entries (aos {COMPLETE} fish $words[2..-1] "$current" 2>/dev/null)
    if test (count $entries) -gt 0
        printf '%s\\n' $entries
    else
        __fish_complete_path "$current"
    end
end
complete --command aos --no-files --arguments '(__aos_completion)'
""",
}
"""The name of a shell -> its script. Where ``aos`` has no candidate, the shell completes files."""


def current_shell() -> str:
    """The name of the user's shell, from ``SHELL``.

    Raises:
        BadUsage: There is no script for it.
    """
    path = os.environ.get("SHELL", "")
    name = Path(path).name
    if name not in SCRIPTS:
        raise BadUsage(
            "SHELL",
            expected=f"the path of {either(sorted(SCRIPTS))}",
            actual=repr(path),
            hint="SHELL=/bin/bash aos --show-completion prints the script for bash",
        )
    return name


def install_completion(shell: str) -> str:
    """Install the completion of a shell: its script, and a line that loads it. Return a sentence
    that names both files."""
    home = Path.home()
    if shell == "fish":  # it reads all files of this folder
        folder = _folder("XDG_CONFIG_HOME", home / ".config") / "fish" / "completions"
        file = _write(folder / "aos.fish", SCRIPTS[shell])
        return f"wrote {file}: fish completes aos from its next start"
    file = _write(
        _folder("XDG_DATA_HOME", home / ".local" / "share") / "aos" / f"completion.{shell}",
        SCRIPTS[shell],
    )
    start_file = home / ".bashrc"
    if shell == "zsh":
        start_file = _folder("ZDOTDIR", home) / ".zshrc"
    command = f"source {shlex.quote(str(file))}"
    text = start_file.read_text("utf-8", "surrogateescape") if start_file.exists() else ""
    if command not in text.splitlines():
        with start_file.open("a", encoding="utf-8") as stream:
            stream.write(f"{command}\n" if not text or text.endswith("\n") else f"\n{command}\n")
    return f"wrote {file}, which {start_file} loads: {shell} completes aos from its next start"


def _folder(variable: str, default: Path) -> Path:
    value = os.environ.get(variable)
    return Path(value) if value else default


def _write(file: Path, script: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script, encoding="utf-8")
    return file
