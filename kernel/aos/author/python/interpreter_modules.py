"""The modules that the interpreter has, and the names of each (PF-31)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MODULES: Final[Mapping[str, str | None]] = {
    "__future__": "annotations",
    "aos.flow": (
        "Break Canceled Continue Critical Cx Exhausted FlowError JoinFailed Local Nat RaceFailed "
        "Retry Rollback Timeout by effect flow other_flow schema"
    ),
    "base64": None,
    "binascii": None,
    "bisect": None,
    "collections": "Counter defaultdict deque namedtuple",
    "copy": None,
    "dataclasses": "dataclass field",
    "datetime": "date datetime time timedelta timezone",
    "decimal": None,
    "functools": "partial reduce",
    "hashlib": None,
    "itertools": None,
    "json": None,
    "math": None,
    "re": None,
    "typing": (
        "Annotated Any Callable ClassVar Final Generic Literal NoReturn Optional Protocol Self "
        "TYPE_CHECKING TypeVar Union"
    ),
    "unicodedata": None,
}
"""Module -> the names of it that a file may import; None for all that the module has."""

LACKING_NAMES: Final[Mapping[str, str]] = {
    "base64": "bytes_types decode encode main test",
    "copy": "Error dispatch_table error",
    "hashlib": "file_digest scrypt",
    "json": "JSONDecoder JSONEncoder detect_encoding",
    "re": "DEBUG L LOCALE RegexFlag Scanner T TEMPLATE U UNICODE VERBOSE X purge subn template",
    "unicodedata": (
        "UCD bidirectional decimal decomposition digit east_asian_width mirrored numeric ucd_3_2_0"
    ),
}
"""Module with all names -> those of CPython that it lacks."""

UNLISTED: Final[Mapping[str, str]] = {
    "dataclasses": "FrozenInstanceError MISSING is_dataclass",
    "functools": "cache lru_cache",
    "typing": (
        "Dict FrozenSet Generator Iterable Iterator List Mapping Never Sequence Set Tuple Type"
    ),
}
"""Module with a list of names -> others that it has, which are not refused as attributes."""

TYPES_ONLY: Final = "collections.abc"

REMEDIES: Final[Mapping[str, str]] = {
    "abc": "write plain classes and functions",
    "asyncio": "use cx.join and cx.race, whose branches are recorded",
    "collections.abc": "import it below `if TYPE_CHECKING:`, with "
    "`from __future__ import annotations`",
    "contextlib": "use try and finally",
    "enum": 'use Literal["a", "b"] for fields, and texts for constants',
    "fractions": "use Decimal, or two ints",
    "io": "use texts and bytes",
    "logging": "use cx.log",
    "operator": "write a lambda",
    "os": "files, the environment and processes are for effects: request one with cx.step",
    "pathlib": "files are for effects: request one with cx.step",
    "random": 'use cx.local("NAME", lambda local: local.random(BELOW))',
    "secrets": "random secrets are for effects: request one with cx.step",
    "socket": "the network is for effects: request one with cx.step",
    "requests": "the network is for effects: request one with cx.step",
    "subprocess": "processes are for effects: request one with cx.step",
    "sys": "a flow has no process of its own",
    "threading": "use cx.join and cx.race",
    "time": 'use cx.local("NAME", lambda local: local.now), or cx.sleep',
    "uuid": 'use cx.local("NAME", lambda local: local.uuid())',
    "UTC": "use timezone.utc",
    "asdict": "write a dict with the fields",
    "replace": "call the class with all fields",
    "NamedTuple": "use @dataclass",
    "TypedDict": "use @dataclass",
    "NewType": "use the type itself",
    "TypeAlias": "write the type in each annotation",
    "wraps": "leave it out: functions have no __name__",
    "base64.decode": "use b64decode",
    "base64.encode": "use b64encode",
    "copy.Error": "catch Exception",
    "copy.error": "catch Exception",
    "json.JSONDecoder": "use json.loads",
    "json.JSONEncoder": "use json.dumps",
    "re.DEBUG": "leave it out",
    "re.L": "leave it out: patterns are of Unicode",
    "re.LOCALE": "leave it out: patterns are of Unicode",
    "re.RegexFlag": "use re.I, re.M and re.S",
    "re.U": "leave it out: patterns are of Unicode",
    "re.UNICODE": "leave it out: patterns are of Unicode",
    "re.VERBOSE": "begin the pattern with (?x)",
    "re.X": "begin the pattern with (?x)",
    "re.subn": "use re.sub, and len(re.findall(…)) for the count",
}
"""Module or name -> the way to do without it."""

OTHER_REMEDY: Final = "write it in this file, or request an effect with cx.step"
