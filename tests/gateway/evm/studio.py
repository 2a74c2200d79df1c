"""The contract ``Studio`` in Python: its rules, views, events and errors, by the ABI.

A state is changed in place; the chain copies it before each transaction. ``Reverted`` means that
the copy is to be dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak

NO_ONE: Final = "0x" + 40 * "0"
SCORES_MAX: Final = 32
NONE, COMMITTED, SCORED = range(3)


class Reverted(Exception):
    """The execution reverted with these bytes."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__("0x" + data.hex())
        self.data = data


def selector(signature: str) -> bytes:
    return keccak(text=signature)[:4]


ERRORS: Final = {
    "AlreadySubmitted": ("bytes32", "address"),
    "EpochClosed": ("uint64",),
    "EpochEmpty": ("uint64",),
    "UnknownWork": ("bytes32",),
    "NotTheWorker": ("bytes32", "address"),
    "AlreadyScored": ("bytes32", "address", "address"),
    "NotCommitted": ("bytes32", "address", "address"),
    "WrongReveal": ("bytes32", "address", "address"),
    "WindowNotOpen": ("uint64",),
    "WindowClosed": ("uint64",),
    "NotTheSubmitter": ("bytes32", "address"),
}


def custom(name: str, *values: Any) -> Reverted:
    types = ERRORS[name]
    return Reverted(selector(f"{name}({','.join(types)})") + encode(types, values))


def required(text: str) -> Reverted:
    """A failed ``require``."""
    return Reverted(selector("Error(string)") + encode(["string"], [text]))


def panic(code: int) -> Reverted:
    return Reverted(selector("Panic(uint256)") + encode(["uint256"], [code]))


@dataclass
class Work:
    submitter: str
    epoch: int
    arweave_id: str


@dataclass
class Score:
    status: int = NONE
    opens_at: int = 0
    closes_at: int = 0
    commitment: bytes = bytes(32)
    scores: tuple[int, ...] = ()
    registrations: int = 0


@dataclass(frozen=True)
class Event:
    """An event before it has a place in a block."""

    topics: tuple[bytes, ...]
    data: bytes


@dataclass(frozen=True)
class Sender:
    """``msg.sender``, and the time of the block in seconds."""

    address: str
    time: int


ScoreKey = tuple[bytes, str, str]


@dataclass
class Studio:
    """The storage. Addresses are in lower case."""

    reveal_delay: int = 0
    reveal_window: int = 3600
    works: dict[bytes, Work] = field(default_factory=dict)
    work_counts: dict[int, int] = field(default_factory=dict)
    closers: dict[int, str] = field(default_factory=dict)
    scores: dict[ScoreKey, Score] = field(default_factory=dict)
    registrations: list[tuple[bytes, str]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    """Of the transaction that is being executed."""

    def copy(self) -> Studio:
        return deepcopy(self)

    def call(self, data: bytes, sender: Sender, value: int = 0) -> bytes:
        """Execute a call and return what it returns.

        Raises:
            Reverted: The state may have been changed in part.
        """
        function = FUNCTIONS.get(data[:4])
        if function is None or value:
            raise Reverted
        try:
            arguments = decode(function.takes, data[4:])
        except (DecodingError, OverflowError):
            raise Reverted from None
        returned = function.body(self, sender, *arguments)
        return encode(function.gives, returned) if function.gives else b""

    def emit(
        self, signature: str, indexed: Sequence[tuple[str, Any]], *data: tuple[str, Any]
    ) -> None:
        topics = (keccak(text=signature), *(encode([kind], [each]) for kind, each in indexed))
        self.events.append(
            Event(topics, encode([kind for kind, _ in data], [each for _, each in data]))
        )

    def score(self, *key: Any) -> Score:
        return self.scores.get(key, Score())


def submit_work(self: Studio, sender: Sender, work: bytes, epoch: int, arweave_id: str) -> None:
    if work in self.works:
        raise custom("AlreadySubmitted", work, self.works[work].submitter)
    if epoch in self.closers:
        raise custom("EpochClosed", epoch)
    self.works[work] = Work(sender.address, epoch, arweave_id)
    self.work_counts[epoch] = self.work_counts.get(epoch, 0) + 1
    self.emit(
        "WorkSubmitted(bytes32,address,uint64,string)",
        [("bytes32", work), ("address", sender.address)],
        ("uint64", epoch),
        ("string", arweave_id),
    )


def register_work(self: Studio, sender: Sender, work: bytes) -> None:
    if work not in self.works:
        raise custom("UnknownWork", work)
    if self.works[work].submitter != sender.address:
        raise custom("NotTheSubmitter", work, sender.address)
    index = len(self.registrations)
    self.registrations.append((work, sender.address))
    self.emit(
        "WorkRegistered(bytes32,address,uint256)",
        [("bytes32", work), ("address", sender.address)],
        ("uint256", index),
    )


def submit_score(
    self: Studio, sender: Sender, work: bytes, worker: str, scores: tuple[int, ...]
) -> None:
    require_count(scores)
    score = new_score(self, sender, work, worker)
    score.status = SCORED
    score.commitment = commitment(work, worker, sender.address, scores, bytes(32))
    score.scores = scores
    emit_score(self, "ScoreSubmitted(bytes32,address,address)", work, worker, sender.address)


def commit_score(self: Studio, sender: Sender, work: bytes, worker: str, committed: bytes) -> None:
    score = new_score(self, sender, work, worker)
    score.status = COMMITTED
    score.commitment = committed
    score.opens_at = sender.time + self.reveal_delay
    score.closes_at = score.opens_at + self.reveal_window
    emit_score(self, "ScoreCommitted(bytes32,address,address)", work, worker, sender.address)


def reveal_score(self: Studio, sender: Sender, work: bytes, worker: str, *revealed: Any) -> None:
    scores, salt = revealed
    require_count(scores)
    key = (work, worker, sender.address)
    score = self.score(*key)
    if score.status == NONE:
        raise custom("NotCommitted", *key)
    if score.status == SCORED:
        raise custom("AlreadyScored", *key)
    if sender.time < score.opens_at:
        raise custom("WindowNotOpen", score.opens_at)
    if sender.time >= score.closes_at:
        raise custom("WindowClosed", score.closes_at)
    if commitment(*key, scores, salt) != score.commitment:
        raise custom("WrongReveal", *key)
    score.status = SCORED
    score.scores = scores
    emit_score(self, "ScoreSubmitted(bytes32,address,address)", *key)


def register_validator(
    self: Studio, sender: Sender, work: bytes, worker: str, validator: str
) -> None:
    score = self.score(work, worker, validator)
    if score.status != SCORED:
        raise custom("NotCommitted", work, worker, validator)
    index = score.registrations
    score.registrations += 1
    self.emit(
        "ValidatorRegistered(bytes32,address,address,uint256)",
        [("bytes32", work), ("address", worker), ("address", validator)],
        ("uint256", index),
    )


def close_epoch(self: Studio, sender: Sender, epoch: int) -> None:
    if epoch in self.closers:
        raise custom("EpochClosed", epoch)
    if not self.work_counts.get(epoch):
        raise custom("EpochEmpty", epoch)
    self.closers[epoch] = sender.address
    self.emit("EpochEnded(uint64,address)", [("uint64", epoch), ("address", sender.address)])


def registration(self: Studio, sender: Sender, index: int) -> tuple[bytes, str]:
    if index >= len(self.registrations):
        raise panic(0x32)
    return self.registrations[index]


def work_of(self: Studio, sender: Sender, work: bytes) -> tuple[str, int, str]:
    found = self.works.get(work, Work(NO_ONE, 0, ""))
    return found.submitter, found.epoch, found.arweave_id


def require_count(scores: tuple[int, ...]) -> None:
    if not 1 <= len(scores) <= SCORES_MAX:
        raise required("expected 1 to 32 scores")


def new_score(self: Studio, sender: Sender, work: bytes, worker: str) -> Score:
    """The empty place of the sender's score; reverts where it may not be scored."""
    found = self.works.get(work)
    if found is None:
        raise custom("UnknownWork", work)
    if found.submitter != worker:
        raise custom("NotTheWorker", work, worker)
    score = self.scores.setdefault((work, worker, sender.address), Score())
    if score.status != NONE:
        raise custom("AlreadyScored", work, worker, sender.address)
    if found.epoch in self.closers:
        raise custom("EpochClosed", found.epoch)
    return score


def commitment(
    work: bytes, worker: str, validator: str, scores: tuple[int, ...], salt: bytes
) -> bytes:
    types = ("bytes32", "address", "address", "uint16[]", "bytes32")
    return keccak(encode(types, (work, worker, validator, scores, salt)))


def emit_score(self: Studio, signature: str, work: bytes, worker: str, validator: str) -> None:
    self.emit(signature, [("bytes32", work), ("address", worker), ("address", validator)])


@dataclass(frozen=True)
class Function:
    """``body`` takes the state, the sender and the decoded arguments. A view ``gives`` types."""

    signature: str
    gives: tuple[str, ...]
    body: Callable[..., Any]

    @property
    def takes(self) -> list[str]:
        inside = self.signature.partition("(")[2][:-1]
        return inside.split(",") if inside else []


def _view(read: Callable[..., Any]) -> Callable[..., tuple[Any]]:
    """A view of one value."""
    return lambda self, _sender, *arguments: (read(self, *arguments),)


_OF_SCORE: Final = "(bytes32,address,address)"
_ALL: Final = (
    Function("submitWork(bytes32,uint64,string)", (), submit_work),
    Function("registerWork(bytes32)", (), register_work),
    Function("submitScore(bytes32,address,uint16[])", (), submit_score),
    Function("commitScore(bytes32,address,bytes32)", (), commit_score),
    Function("revealScore(bytes32,address,uint16[],bytes32)", (), reveal_score),
    Function("registerValidator(bytes32,address,address)", (), register_validator),
    Function("closeEpoch(uint64)", (), close_epoch),
    Function("revealDelay()", ("uint64",), _view(lambda self: self.reveal_delay)),
    Function("revealWindow()", ("uint64",), _view(lambda self: self.reveal_window)),
    Function(
        "submitterOf(bytes32)",
        ("address",),
        _view(lambda self, work: self.works[work].submitter if work in self.works else NO_ONE),
    ),
    Function("workOf(bytes32)", ("address", "uint64", "string"), work_of),
    Function(
        "registrationsOf(bytes32,address)",
        ("uint256",),
        _view(lambda self, *key: self.registrations.count(key)),
    ),
    Function("registrationCount()", ("uint256",), _view(lambda self: len(self.registrations))),
    Function("registration(uint256)", ("bytes32", "address"), registration),
    Function(
        f"scoreStatusOf{_OF_SCORE}", ("uint8",), _view(lambda self, *key: self.score(*key).status)
    ),
    Function(
        f"commitmentOf{_OF_SCORE}",
        ("bytes32",),
        _view(lambda self, *key: self.score(*key).commitment),
    ),
    Function(
        f"revealWindowOf{_OF_SCORE}",
        ("uint64", "uint64"),
        lambda self, _, *key: (self.score(*key).opens_at, self.score(*key).closes_at),
    ),
    Function(
        f"scoresOf{_OF_SCORE}", ("uint16[]",), _view(lambda self, *key: self.score(*key).scores)
    ),
    Function(
        f"validatorRegistrationsOf{_OF_SCORE}",
        ("uint256",),
        _view(lambda self, *key: self.score(*key).registrations),
    ),
    Function(
        "closerOf(uint64)", ("address",), _view(lambda self, epoch: self.closers.get(epoch, NO_ONE))
    ),
    Function(
        "worksIn(uint64)", ("uint256",), _view(lambda self, epoch: self.work_counts.get(epoch, 0))
    ),
)
FUNCTIONS: Final = {selector(each.signature): each for each in _ALL}


def calldata(signature: str, *arguments: Any) -> bytes:
    """The data of a call: ``calldata("registerWork(bytes32)", work)``."""
    function = FUNCTIONS[selector(signature)]
    return selector(signature) + encode(function.takes, arguments)


def read_result(signature: str, data: bytes) -> tuple[Any, ...]:
    """The values that a view returned, decoded."""
    return tuple(decode(FUNCTIONS[selector(signature)].gives, data))
