"""Trees against a plain dict: after any writes and removals, both have the same content."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.effects.workspace.trees import Trees, described, refused, sha

NAMES = st.sampled_from(["a", "a-b", "b", "é", "x.y", "~"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
DATA = st.sampled_from([b"", b"1", b"22", b"\xd9\xd9\xf7\xa0"])
KEYS = st.sampled_from(["k", "l"])
HASHES = st.sampled_from([None, sha(b"k"), sha(b"l")])
MODES = st.sampled_from([None, 0o600, 0o755])


class Model:
    """Files: path -> (bytes, mode). Folders: a set of paths. Notes: path ("" the root) -> map."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.folders: set[str] = set()
        self.notes: dict[str, dict[str, str]] = {}

    def copy(self) -> Model:
        copy = Model()
        copy.files, copy.folders = dict(self.files), set(self.folders)
        copy.notes = {path: dict(notes) for path, notes in self.notes.items()}
        return copy

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.folders

    def paths(self) -> list[str]:
        return sorted([*self.files, *self.folders], key=lambda path: path.split("/"))

    def inside(self, folder: str) -> list[str]:
        return [path for path in self.paths() if path.startswith(f"{folder}/")]

    def node(self, folder: str = "") -> bytes:
        """The bytes of a folder, made from the model alone."""
        prefix = f"{folder}/" if folder else ""
        entries: list[dict[str, Any]] = []
        names = [each.removeprefix(prefix) for each in self.paths() if each.startswith(prefix)]
        for name in sorted(each for each in names if "/" not in each):
            path = prefix + name
            if path in self.folders:
                entries.append(
                    {"kind": "dir", "hash": sha(self.node(path)), "size": 0, "mode": 0o755}
                )
            else:
                data, mode = self.files[path]
                entries.append({"kind": "file", "hash": sha(data), "size": len(data), "mode": mode})
            entries[-1]["name"] = name
            entries[-1]["annotations_hash"] = self.note_hash(path) if path in self.files else None
        own = self.note_hash(folder)
        if own is None and all(each["annotations_hash"] is None for each in entries):
            for each in entries:
                del each["annotations_hash"]
            return described({"entries": entries})
        return described({"entries": entries, "annotations_hash": own})

    def note_hash(self, path: str) -> str | None:
        notes = self.notes.get(path)
        return sha(described(notes)) if notes else None

    def hash(self, path: str) -> str:
        return sha(self.node(path)) if path in self.folders else sha(self.files[path][0])

    def changes(self, new: Model) -> list[tuple[str, str, str | None, str | None]]:
        """Of every path, one by one, without regard to hashes of folders."""
        found: list[tuple[str, str, str | None, str | None]] = []
        if self.note_hash("") != new.note_hash(""):
            found.append(("", "dir", sha(self.node()), sha(new.node())))
        for path in {*self.paths(), *new.paths()}:
            sides = [
                (model.kind(path), model.hash(path)) if model.exists(path) else None
                for model in (self, new)
            ]
            old_side, new_side = sides
            if old_side and new_side and old_side[0] == new_side[0]:
                is_same = self.note_hash(path) == new.note_hash(path)
                if old_side[0] == "file":
                    is_same = is_same and self.files[path] == new.files[path]
                if not is_same:
                    found.append((path, old_side[0], old_side[1], new_side[1]))
                continue
            if old_side:
                found.append((path, old_side[0], old_side[1], None))
            if new_side:
                found.append((path, new_side[0], None, new_side[1]))
        return found

    def kind(self, path: str) -> str:
        return "dir" if path in self.folders else "file"


class TreeMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.trees = Trees()
        self.model = Model()
        self.root = self.trees.empty()
        self.before = (self.model.copy(), self.root)

    @rule(path=PATHS, data=DATA, mode=MODES, by_ref=st.booleans())
    def write(self, path: str, data: bytes, mode: int | None, by_ref: bool) -> None:
        parents = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 1)]
        if any(parent in self.model.files for parent in parents):
            with refused("not_a_directory"):
                self.trees.write(self.root, path, data, mode)
            return
        if path in self.model.folders:
            with refused("is_a_directory"):
                self.trees.write(self.root, path, data, mode)
            return
        self.remember()
        if by_ref:
            params = {"root_hash": self.root, "path": path, "mode": mode}
            answer = self.trees.do("write_ref", **params, blob_hash=self.trees.put(data))
            self.root = answer["new_root_hash"]
        else:
            self.root = self.trees.write(self.root, path, data, mode)
        before = self.model.files.get(path)
        kept = 0o644 if before is None else before[1]
        self.model.folders |= set(parents)
        self.model.files[path] = (data, kept if mode is None else mode)

    @rule(path=PATHS)
    def remove(self, path: str) -> None:
        if not self.model.exists(path):
            with refused("not_found"):
                self.trees.remove(self.root, path)
        elif path in self.model.folders and self.model.inside(path):
            with refused("not_empty"):
                self.trees.remove(self.root, path)
        else:
            self.remember()
            self.root = self.trees.remove(self.root, path)
            self.model.files.pop(path, None)
            self.model.folders.discard(path)
            self.model.notes.pop(path, None)

    @rule(path=st.none() | PATHS, key=KEYS, hash=HASHES)
    def annotate(self, path: str | None, key: str, hash: str | None) -> None:
        if path is not None and not self.model.exists(path):
            with refused("not_found"):
                self.trees.annotate(self.root, path, **{key: hash})
            return
        self.remember()
        self.root = self.trees.annotate(self.root, path, **{key: hash})
        notes = self.model.notes.setdefault(path or "", {})
        notes.pop(key, None)
        if hash is not None:
            notes[key] = hash

    @rule(path=st.none() | PATHS)
    def look(self, path: str | None) -> None:
        """AG-53: annotations, reference and bytes of any path."""
        if path is not None and not self.model.exists(path):
            assert self.trees.do("read_ref", root_hash=self.root, path=path) is None
            return
        assert self.trees.annotations(self.root, path) == (self.model.notes.get(path or "") or None)
        if path is not None:
            found = self.trees.do("read_ref", root_hash=self.root, path=path)
            assert (found["kind"], found["hash"]) == (self.model.kind(path), self.model.hash(path))
        if path in self.model.files:
            assert self.trees.read(self.root, path) == self.model.files[path][0]

    @rule(limit=st.integers(0, 5), folder=st.none() | PATHS)
    def list_all(self, limit: int, folder: str | None) -> None:
        """AG-53: pages of any size, from any folder."""
        if folder is not None and folder not in self.model.folders:
            return
        expected = self.model.paths() if folder is None else self.model.inside(folder)
        assert self.trees.paths(self.root, limit=limit, path=folder) == expected
        depth = 0 if folder is None else folder.count("/") + 1
        children = [path for path in expected if path.count("/") == depth]
        assert self.trees.paths(self.root, scope="dir", limit=limit, path=folder) == children

    @rule(prefix=st.none() | PATHS)
    def compare(self, prefix: str | None) -> None:
        """AG-53: with the tree before the last change, in both directions."""
        model, root = self.before
        for old, new, roots in (
            (model, self.model, (root, self.root)),
            (self.model, model, (self.root, root)),
        ):
            answer = self.trees.do("diff", root_a=roots[0], root_b=roots[1], prefix=prefix)
            found = [tuple(each.values()) for each in self.shown(answer["changes"])]
            expected = [
                each
                for each in old.changes(new)
                if prefix is None or each[0] == prefix or each[0].startswith(f"{prefix}/")
            ]
            assert sorted(found, key=repr) == sorted(expected, key=repr)
            assert len(found) == len(set(found))

    @staticmethod
    def shown(changes: list[Any]) -> list[dict[str, Any]]:
        fields = ("path", "kind", "old_hash", "new_hash")
        return [{field: each[field] for field in fields} for each in changes]

    def remember(self) -> None:
        self.before = (self.model.copy(), self.root)

    @invariant()
    def both_are_equal(self) -> None:
        """AG-51: the root is a function of the content alone, and all of it is stored."""
        assert self.root == sha(self.model.node())
        for path, (data, _) in self.model.files.items():
            assert self.trees.stored(sha(data)) == data, path


TestTreeMachine = TreeMachine.TestCase
