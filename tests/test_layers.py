"""The core stays pure, and imports point one way (K-1), between packages and inside of them."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
AOS = ROOT / "kernel" / "aos"

PURE_PACKAGES = ("aos.values", "aos.manifest", "aos.flow", "aos.linear", "aos.core")
PURE_THIRD_PARTY = {"blake3", "nacl"}
PURE_STDLIB = {
    "__future__", "base64", "binascii", "bisect", "collections", "contextlib", "copy",
    "dataclasses", "datetime", "decimal", "difflib", "enum", "functools", "hashlib", "heapq",
    "ipaddress", "itertools", "json", "math", "operator", "re", "string", "struct",
    "types", "typing", "unicodedata",
}  # fmt: skip

IMPORTED_AS = {"pynacl": "nacl", "prometheus-client": "prometheus_client"}
OPTIONAL = {
    ("plugin.py", "pytest"), ("otlp.py", "opentelemetry"), ("otlp.py", "requests"),
    ("otlp.py", "requests"), ("otlp.py", "urllib3"), ("nats_session.py", "nats"),
    ("evm_packages.py", "eth_hash"), ("evm_packages.py", "eth_keys"), ("rsa_pss.py", "Crypto"),
}  # fmt: skip
"""pytest itself loads its plugin; the front loads ``otlp.py`` if the extra ``otel`` is there; the
others say that the extra ``cluster`` or ``gateway`` is missing, and do not load."""

# A package may import from those after it, never the other way.
LAYERS = (
    "aos_gateway", "aos_cli", "aos.author", "aos.testing", "aos.effects", "aos.page", "aos.node",
    "aos.client", "aos.host", "aos.prove", "aos.read", "aos.worker", "aos.sealing", "aos.store",
    "aos.fastcore", "aos.sandbox", "aos.core", "aos.flow", "aos.linear",
)  # fmt: skip
LAYERS_BELOW = (
    "aos.manifest", "aos.values", "aos.extensions", "aos.closable", "aos.errors",
    "aos.document_text", "aos.quick_program", "aos.dataclass_methods", "aos.private_memory",
    "aos.boot_clock", "aos.process_limits", "aos.rare_collections", "aos.retry_after",
    "aos.shell_text", "aos.tied_process",
)  # fmt: skip

FOLDERS = {
    "aos_gateway": ROOT / "manifests" / "gateway" / "aos_gateway",
    "aos_cli": ROOT / "cli" / "aos_cli",
}
"""Of the layers that are not in ``kernel``."""

OF_THE_GATEWAY = ("tests/gateway/", "benchmarks/gateway/", "tests/benchmarks/test_gateway_bench.py")
"""Who may import it. It is an extension: it can be taken away."""

# Inside of a package: each room, or module in no room, and those that it may import. ``*`` is all.
ROOMS: dict[str, dict[str, str]] = {
    "core": {
        "journal": "",
        "limits": "",
        "state": "journal limits",
        "snapshot": "journal limits state",
        "decide.dialect": "journal limits state",
        "decide": "journal limits state snapshot decide.dialect",
        "pending": "journal state",
        "kernel_protocol": "journal limits state decide pending",
        "kernel": "journal limits state snapshot decide pending kernel_protocol",
    },
    "host": {
        "errors": "",
        "fields": "",
        "stamps": "",
        "schedules": "",
        "nats_program": "",
        "nats_servers": "",
        "package_checks": "schedules",
        "folder": "stamps",
        "follower": "folder",
        "apply": "folder schedules",
        "transfer": "folder stamps",
        "world": "errors fields stamps folder schedules package_checks",
        "run_end": "errors",
        "executors": "fields stamps folder world",
        "open_work": "executors",
        "timer_pull": "errors executors world",
        "door": "errors fields folder apply world executors",
        "cluster": "errors stamps folder transfer world door",
        "delivery_queue": "executors door",
        "world_send": "errors stamps folder executors door delivery_queue",
        "checkpoints": "stamps folder",
        "retention": "folder transfer world executors door checkpoints",
        "standby": "errors folder cluster world executors door",
        "node_bus": "folder cluster door executors",
        "replicated_process": "errors folder world door cluster run_end executors standby",
        "node_around": "door run_end",
        "process": (
            "errors stamps open_work timer_pull folder world executors door retention checkpoints "
            "cluster run_end standby node_bus replicated_process node_around"
        ),
    },
    "read": {
        "lens": "",
        "where": "lens",
        "views": "lens where",
        "trace": "lens views",
        "index": "lens where views trace",
        "operations": "lens where views trace",
    },
    "prove": {
        "headerlog": "",
        "proofs": "headerlog",
        "verify": "headerlog proofs",
        "replay": "verify",
        "event_log": "",
        "report": "verify replay",
        "whatif": "verify replay",
    },
}  # fmt: skip


@cache
def path_of(module: str) -> Path | None:
    base = AOS.parent / Path(*module.split("."))
    for found in (base.with_suffix(".py"), base / "__init__.py"):
        if found.exists():
            return found
    return None


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports, with the submodules that ``from x import y`` may mean."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            found.add(node.module)
            found.update(
                name
                for alias in node.names
                if path_of(name := f"{node.module}.{alias.name}") is not None
            )
    return frozenset(found)


def reachable(start: str) -> dict[str, str]:
    """Each module that ``start`` imports, directly or not -> the one that imports it."""
    seen: dict[str, str] = {start: "the test"}
    todo = [start]
    while todo:
        module = todo.pop()
        path = path_of(module)
        if path is None:
            continue
        for name in imports(path):
            if name not in seen:
                seen[name] = module
                todo.append(name)
    return seen


# A dict keyed by id() is in order of insertion; still, the core itself has no use for one.
FORBIDDEN = {
    "core": {"hash", "id", "open", "print", "input"},
    "manifest": {"hash", "open", "print", "input"},
    "values": {"hash", "open", "print", "input"},
}

CORE = sorted(
    ".".join(path.relative_to(AOS.parent).with_suffix("").parts)
    for path in (AOS / "core").rglob("*.py")
)
PURE_PROOFS = (
    *(f"aos.prove.headerlog.{name}" for name in (
        "checkpoint", "header_tree", "signed_note", "tiles", "witness_protocol",
    )),
    *(f"aos.prove.proofs.{name}" for name in (
        "checking", "header", "proof_file", "trust", "world_key",
    )),
)  # fmt: skip
"""Trees, notes and the verifier of proofs: they read no file and no clock."""


@pytest.mark.parametrize("module", [*CORE, *PURE_PROOFS])
def test_the_core_and_the_verifier_of_proofs_reach_nothing_that_does_io(module: str) -> None:
    for name, importer in reachable(module).items():
        top = name.split(".")[0]
        if top == "aos":
            pure = name in ("aos", "aos.errors", "aos.prove", "aos.prove.headerlog",
                            "aos.prove.proofs", *PURE_PROOFS)  # fmt: skip
            pure = pure or name.startswith(PURE_PACKAGES)
            assert pure, f"{importer} imports {name}: the core gets it as an argument"
        else:
            assert top in PURE_STDLIB | PURE_THIRD_PARTY, f"{importer} imports {name}"


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_down(layer: str) -> None:
    above = LAYERS[: LAYERS.index(layer)]
    folder = FOLDERS.get(layer, AOS.parent / Path(*layer.split(".")))
    for path in list(folder.rglob("*.py")) or [folder.with_suffix(".py")]:
        for name in imports(path):
            assert not name.startswith(above), f"{path} imports upwards: {name}"


def test_nothing_imports_the_gateway_but_its_tests_and_its_benchmark() -> None:
    importing = re.compile(r"^\s*(?:from|import) aos_gateway\b", re.MULTILINE)
    others = [
        name
        for top in ("kernel", "cli", "manifests", "benchmarks", "tests", "modules", "spec")
        for path in (ROOT / top).rglob("*.py")
        if not path.is_relative_to(FOLDERS["aos_gateway"])
        and not (name := str(path.relative_to(ROOT))).startswith(OF_THE_GATEWAY)
        and importing.search(path.read_text("utf-8"))
    ]

    assert others == []


SURFACE = frozenset(
    re.findall(
        r"^  `(aos_cli\.[\w.]+)`", (ROOT / "spec" / "extending.md").read_text("utf-8"), re.MULTILINE
    )
)
"""The modules of the command line that are for extensions (EP-15)."""


def test_the_gateway_uses_the_surface_for_extensions() -> None:
    """EP-15. It is one, so others can be written."""
    for path in FOLDERS["aos_gateway"].rglob("*.py"):
        for name in imports(path):
            assert not name.startswith("aos_cli") or name in SURFACE, f"{path} imports {name}"


def test_the_product_imports_only_what_an_install_brings() -> None:
    """A package of the development group is missing from a default install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {re.split(r"[^\w-]", each)[0].lower() for each in project["dependencies"]}
    installed = {IMPORTED_AS.get(each, each) for each in named}
    for folder in (AOS, *FOLDERS.values()):
        for path in folder.rglob("*.py"):
            if "templates" in path.parts:
                continue  # they are copied into projects, which run their tests under pytest
            for name in imports(path):
                top = name.split(".")[0]
                is_ours = top in sys.stdlib_module_names | {"aos", *FOLDERS}
                assert is_ours or top in installed or (path.name, top) in OPTIONAL, (
                    f"{path} imports {name}, which no dependency of the product brings"
                )


def test_the_independent_verifier_imports_nothing_of_aos() -> None:
    found = {name.split(".")[0] for name in imports(ROOT / "spec" / "verify_proof.py")}

    assert found <= sys.stdlib_module_names | {"blake3", "nacl"}


def test_the_constants_of_the_core_are_final() -> None:
    """Limits that a test makes smaller are in ``aos.core.limits`` and are passed in (K-1)."""
    for path in (AOS / "core").rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign):
                names = [each.id for each in node.targets if isinstance(each, ast.Name)]
                assert not [each for each in names if re.fullmatch(r"[A-Z][A-Z_]+", each)], (
                    f"{path}:{node.lineno}: {names[0]} is not Final"
                )


def test_the_core_calls_nothing_that_differs_between_runs() -> None:
    """K-7."""
    for package in ("core", "manifest", "values"):
        for path in (AOS / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    assert node.func.id not in FORBIDDEN[package], (
                        f"{path}:{node.lineno} calls {node.func.id}"
                    )


LIVE = (
    "aos.host.world", "aos.host.executors", "aos.host.door", "aos.host.process",
    "aos.host.schedules", "aos.host.package_checks", "aos.host.transfer.importing",
    "aos.host.transfer.forking", "aos.host.transfer.intake", "aos.host.cluster",
    "aos.prove.replay", "aos.testing",
)  # fmt: skip
"""The code that runs, replays or imports a world: it asks a kernel (spec/core.md, CR-1)."""

READERS = (
    "aos.host.world.snapshot_child", "aos.host.cluster.reference_fold", "aos.testing.desk",
)  # fmt: skip
"""Of these, the children that take a snapshot of what is durable, and that compare one with the
reference, and the desk, whose tests read."""

OF_THE_REFERENCE = {"Kernel", "State", "Cells", "fold", "fold_frame", "world_state"}


def names_from_core(path: Path) -> set[str]:
    """The names that a file imports from modules of the core."""
    return {
        alias.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aos.core.")
        for alias in node.names
    }


def test_code_that_runs_a_world_knows_a_kernel_by_its_protocol_alone() -> None:
    """CR-1: a second kernel can stand in the place of the reference."""
    for path in AOS.rglob("*.py"):
        module = ".".join(path.relative_to(AOS.parent).with_suffix("").parts)
        if f"{module}.".startswith("aos.core."):
            continue
        names = names_from_core(path)
        assert "Kernel" not in names, f"{module} names the reference kernel"
        assert "world_state" not in names or module in READERS, f"{module} reads a running state"
        is_live = any(f"{module}.".startswith(f"{live}.") for live in LIVE)
        if is_live and module not in READERS:
            assert not names & OF_THE_REFERENCE, f"{module} names {names & OF_THE_REFERENCE}"


def test_no_code_reaches_the_state_of_a_kernel() -> None:
    """CR-1."""
    for folder in (AOS, *FOLDERS.values()):
        for path in folder.rglob("*.py"):
            if path.is_relative_to(AOS / "core"):
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr in ("state", "_state"):
                    owner = node.value
                    name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
                    assert name not in ("kernel", "_kernel"), f"{path}:{node.lineno}"


def room_of(module: str, package: str) -> str | None:
    """The room of ``aos.PACKAGE…``, or its own name where it is in none."""
    inside = module.removeprefix(f"aos.{package}.")
    rooms = [room for room in ROOMS[package] if f"{inside}.".startswith(f"{room}.")]
    return max(rooms, key=len, default=None)


def imported_rooms(package: str) -> dict[str, set[str]]:
    """Each room of a package -> the other rooms that its files import."""
    found: dict[str, set[str]] = {}
    for path in (AOS / package).rglob("*.py"):
        if path.parent == AOS / package and path.name == "__init__.py":
            continue
        module = ".".join(path.relative_to(AOS.parent).with_suffix("").parts)
        room = room_of(module.removesuffix(".__init__"), package)
        assert room is not None, f"{module} is in no room of {package}: add it to ROOMS"
        found.setdefault(room, set()).update(
            other
            for name in imports(path)
            if name.startswith(f"aos.{package}.")
            and path_of(name) is not None
            and (other := room_of(name, package)) not in (None, room)
        )
    return found


@pytest.mark.parametrize("package", ROOMS)
def test_a_room_imports_the_rooms_below_it_alone(package: str) -> None:
    for room, others in imported_rooms(package).items():
        allowed = set(ROOMS[package][room].split())
        assert others <= allowed, f"{package}.{room} imports {sorted(others - allowed)}"


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_are_listed_from_the_ground_up(package: str) -> None:
    """So there is no cycle: a room may import only those that the table lists before it."""
    below: set[str] = set()
    for room, allowed in ROOMS[package].items():
        assert set(allowed.split()) <= below
        below.add(room)
