"""An independent reader of a journal: frames' bytes in, the first broken promise out.

It knows spec/journal.md and a few rules of spec/kernel.md, and nothing of this repository's code:
bytes are read with cbor2, hashed with blake3 and verified with nacl. It keeps no values and runs no
module; it only holds each record against those before it, and against what people outside the world
were told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import cbor2
from blake3 import blake3
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

Record = dict[str, Any]
Cell = tuple[str, bytes]
Blob = Callable[[bytes], bytes | None]

STAMPED: Final = {
    "genesis",
    "start",
    "manifest",
    "event",
    "receipt",
    "stream",
    "attempt",
    "snapshot",
    "control",
    "governance",
}
FROM_OUTSIDE: Final = {"receipt_invalid", "overloaded"}
KERNEL: Final = ("sys/timer.cancel@", "sys/effect.cancel@", "sys/introspect.")


class Broken(Exception):
    """A journal does not keep a promise."""


def need(is_so: object, promise: str, *what: Any) -> None:
    if not is_so:
        raise Broken(f"{promise}: {', '.join(map(repr, what))}" if what else promise)


def encoded(value: Any) -> bytes:
    return cbor2.dumps(value, canonical=True)


def decoded(data: bytes) -> Any:
    """Decode ``data``, which must be in canonical encoding."""
    try:
        value = cbor2.loads(data)
    except (cbor2.CBORDecodeError, ValueError, OverflowError) as problem:
        raise Broken(f"every value can be decoded: {problem}") from problem
    need(encoded(value) == data, "a canonical spelling", data[:40])
    return value


def hashed(domain: str, *parts: Any) -> bytes:
    return blake3(encoded([domain, *parts])).digest()


def tree(leaves: Sequence[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashed("aos/node/1", tree(leaves[:split]), tree(leaves[split:]))


def is_signed(message: Any, signature: bytes, key: bytes) -> bool:
    try:
        VerifyKey(key).verify(encoded(message), signature)
    except (BadSignatureError, ValueError):
        return False
    return True


@dataclass
class Intent:
    cell: Cell
    effect: str
    opened: int
    executors: list[Record] | None
    once: bool
    due_ns: int | None
    key: bytes
    settled: int | None = None
    attempt: int = 0
    halted: str | None = None
    frame: int = -1
    is_abandoned: bool = False


@dataclass
class Mailbox:
    """The entries that wait for one cell, computed from the records."""

    entries: deque[tuple[int, int]] = field(default_factory=deque)
    fault: str | None = None
    has_state: bool = False
    open: list[bytes] = field(default_factory=list)


@dataclass
class Reader:
    """One pass over the frames of one world."""

    blob: Blob
    prev: bytes = bytes(32)
    seq: int = 0
    roots: list[bytes] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    world: bytes = b""
    world_key: bytes = b""
    operators: dict[str, bytes] = field(default_factory=dict)
    clock: int = 0
    manifests: int = 0
    controls: int = 0
    executors: list[Record] | None = None
    effects: dict[str, Record] = field(default_factory=dict)
    revoked: set[bytes] = field(default_factory=set)
    intents: dict[bytes, Intent] = field(default_factory=dict)
    cells: dict[Cell, Mailbox] = field(default_factory=dict)
    ring: list[Cell] = field(default_factory=list)
    ingress: list[str] | None = None
    """The schemas that are accepted from outside; None if all are."""
    limits: dict[str, int] = field(default_factory=dict)
    step_limits: dict[str, dict[str, int]] = field(default_factory=dict)
    """The step limits of each workflow in force."""
    limits_at: dict[int, dict[str, dict[str, int]]] = field(default_factory=dict)
    """The same of each manifest, by its record."""
    ends: dict[int, bytes] = field(default_factory=dict)
    """The last record of each frame -> the hash of the frame."""
    snapshot: int = 0
    """The record that the last snapshot was taken after."""
    asked: dict[Any, dict[bytes, bytes]] = field(default_factory=dict)
    """Cell, or "world" -> the requested keys that it remembers, each with its params."""
    owed: list[tuple[bytes, str]] = field(default_factory=list)
    approvers: dict[str, bytes] = field(default_factory=dict)
    """Name -> key, of the approvers in force; empty in a world that is not governed."""
    quorum: int = 0
    proposed: int = 0
    proposals: dict[int, Record] = field(default_factory=dict)
    """The open ones by their records: the record, and in ``votes`` the last vote of each."""
    stated: dict[bytes, tuple[str, bytes]] = field(default_factory=dict)
    """Intents that an operator settled: status, and content hash of the payload."""

    # Frames (J-24 to J-31)

    def frame(self, data: bytes) -> None:
        frame = decoded(data)
        header, records, salt = frame["header"], frame["records"], frame["salt"]
        need(set(frame) == {"header", "records", "salt"} and records, "a whole frame")
        first = self.seq + 1
        leaves = []
        for seq, record in enumerate(records, first):
            own = blake3(
                salt + seq.to_bytes(8, "big"), derive_key_context="aos/record-salt/1"
            ).digest()
            leaves.append(hashed("aos/leaf/1", own, record))
        for record in records:
            self.record(decoded(record))
        root = tree(leaves)
        self.roots.append(hashed("aos/log-leaf/1", root))
        expected = {
            "version": 1, "world": self.world, "first": first, "last": first + len(records) - 1,
            "prev": self.prev, "root": root, "log_root": tree(self.roots),
        }  # fmt: skip
        need(header == expected, "a header over its records and the frames before", first)
        self.prev = hashed("aos/frame/1", header)
        self.ends[self.seq] = self.prev

    def record(self, record: Record) -> None:
        need(record["seq"] == self.seq + 1, "ascending without a gap", self.seq, record["seq"])
        self.seq += 1
        self.records.append(record)
        kind = record["kind"]
        need(
            (kind in STAMPED) == ("stamp" in record),
            "a stamp on each input from outside, and on nothing else",
            kind,
        )
        if kind in STAMPED:
            self.clock = self._clock_after(record)
        getattr(self, f"_{kind}")(record)

    def _clock_after(self, record: Record) -> int:
        """K-4, K-109b."""
        stamp: int = record["stamp"]["ns"]
        if record["kind"] != "control" or record["action"] != "clock":
            return max(self.clock, stamp)
        need(self.clock - stamp > 60 * 10**9, "no clock set back that is not ahead", self.seq)
        return stamp

    # Inputs

    def _genesis(self, record: Record) -> None:
        need(self.seq == 1, "one genesis, first of all")
        self.world_key = record["world_key"]
        self.world = hashed("aos/world/1", record["nonce"], self.world_key)
        named = [[each["name"], each["key"]] for each in record["operators"]]
        self.operators = dict(named)
        message = ["aos/genesis/1", record["nonce"], self.world_key, named, record["semantics"]]
        need(is_signed(message, record["signature"], self.world_key), "a signed genesis")

    def _start(self, record: Record) -> None:
        need(record["host"], "a start that names its host")

    def _manifest(self, record: Record) -> None:
        document = record["document"]
        message = ["aos/apply/1", self.world, record["serial"], document["hash"]]
        if "mode" in record or "leaves" in record:
            more = [record.get("mode", "strict"), record.get("leaves", [])]
            message = ["aos/apply/2", *message[1:], *more]
        if "proposal" in record:
            more = [record.get("mode", "strict"), record.get("leaves", []), record["proposal"]]
            message = ["aos/apply/3", self.world, record["serial"], document["hash"], *more]
        need(("proposal" in record) == bool(self.approvers), "a proposal if governed", self.seq)
        if self.approvers:
            self._has_quorum(record)
        need(record["serial"] == self.manifests, "manifest serials in order", self.seq)
        key = self.operators[record["principal"]]
        need(is_signed(message, record["signature"], key), "a signed manifest", self.seq)
        self.manifests += 1
        data = self.blob(document["hash"])
        need(data is not None and len(data) == document["size"], "a manifest's document", self.seq)
        assert data is not None
        read = decoded(data)
        in_place = {
            each["name"] for each in read["definitions"] if each.get("upgrade") == "in_place"
        }
        waiting = {id for id, each in self.cells.items() if each.entries and not each.fault}
        waiting |= {self.intents[hash].cell for hash in self._open()}
        waiting = {id for id in waiting if id[0] not in in_place}
        need(record.get("mode") or not waiting, "a manifest at rest", self.seq, waiting)
        self.proposals.clear()
        block = read["manifest"].get("governance", {"approvers": [], "quorum": 0})
        self.quorum = block["quorum"]
        self.approvers = {
            each["name"]: bytes.fromhex(each["public_key"][8:]) for each in block["approvers"]
        }
        routing = read["manifest"].get("routing", {})
        self.ingress = routing.get("ingress")
        self.shard = read.get("shard")
        self.shard_by = {
            each["workflow"]: each.get("shard_by") for each in routing.get("shards", ())
        }
        self.limits = read["limits"]["world"]
        self.step_limits = read["limits"]["workflows"]
        self.limits_at[self.seq] = self.step_limits
        self.executors = read["manifest"].get("executors")
        self.effects = {
            each["name"]: each for each in read["definitions"] if each["$kind"] == "defeffect"
        }
        for each in self.executors or []:
            self.revoked |= {bytes.fromhex(key[8:]) for key in each.get("revoked_keys", ())}

    def _has_quorum(self, record: Record) -> None:
        """GV-40: the approvers in force approved exactly this."""
        proposal = self.proposals.get(record["proposal"])
        need(proposal is not None, "an open proposal", self.seq)
        assert proposal is not None
        votes = [proposal["votes"].get(name) for name in self.approvers]
        need(votes.count("approve") >= self.quorum, "a manifest with its quorum", self.seq, votes)
        for name in ("document", "mode", "leaves"):
            need(
                proposal["record"].get(name) == record.get(name),
                "exactly the approved change",
                self.seq,
            )

    def _governance(self, record: Record) -> None:
        """GV-20 to GV-26."""
        action, who = record["action"], record["principal"]
        need(self.approvers, "a governed world", self.seq)
        about = record
        if action == "propose":
            need(record["serial"] == self.proposed, "proposal serials in order", self.seq)
            self.proposed += 1
            self.proposals[self.seq] = {"record": record, "votes": {}}
        else:
            need(record["proposal"] in self.proposals, "a proposal that is open", self.seq)
            about = self.proposals[record["proposal"]]["record"]
        keys = [self.approvers[who]] if who in self.approvers else []
        if action in ("propose", "report", "withdraw") and who in self.operators:
            keys.append(self.operators[who])
        if action == "withdraw":
            need(who == about["principal"], "withdrawn by its proposer", self.seq)
        message = [
            "aos/governance/1", self.world, action, record.get("proposal"), record.get("serial"),
            about["base"], about["document"]["hash"], about["patch"]["hash"], about.get("mode"),
            about.get("leaves"), record["report"]["hash"] if "report" in record else None,
            record.get("seen"), record.get("note"),
        ]  # fmt: skip
        signature = record["signature"]
        need(any(is_signed(message, signature, key) for key in keys), "a signed vote", self.seq)
        if action in ("approve", "reject"):
            self._vote(record)
        elif action == "withdraw":
            del self.proposals[record["proposal"]]

    def _vote(self, record: Record) -> None:
        votes = self.proposals[record["proposal"]]["votes"]
        before = votes.get(record["principal"])
        is_new = before is None or (before, record["action"]) == ("approve", "reject")
        need(is_new, "one vote each", self.seq, before)
        votes[record["principal"]] = record["action"]
        rejects = list(votes.values()).count("reject")
        if len(self.approvers) - rejects < self.quorum:
            del self.proposals[record["proposal"]]

    def _open(self) -> list[bytes]:
        return [hash for each in self.cells.values() for hash in each.open]

    def _event(self, record: Record) -> None:
        is_open = self.ingress is None or record["schema"] in self.ingress
        need(is_open, "an event that is accepted from outside", self.seq, record["schema"])
        self._deliver(record, (self.seq, 0))

    def _receipt(self, record: Record) -> None:
        intent = self._intent(record)
        payload = self._content(record["payload"])
        names = (
            "intent",
            "effect",
            "executor",
            "key_id",
            "attempt",
            "status",
            "started_ns",
            "finished_ns",
            "cost_cents",
        )
        body = {name: record[name] for name in names if name in record}
        message: Any = ["aos/receipt/1", {**body, "world": self.world, "payload": payload}]
        if "batch" in record:
            batch = record["batch"]
            leaf = hashed("aos/receipt-leaf/1", encoded(message))
            root = way_up(leaf, batch["index"], batch["size"], batch.get("path", []))
            over = {"world": self.world, "executor": record["executor"], "key_id": record["key_id"]}
            message = ["aos/receipts/1", {**over, "root": root, "size": batch["size"]}]
        self._signed(record, intent, message)
        if (
            intent.effect == "sys/timer.set@1"
            and record["status"] == "ok"
            and intent.due_ns is not None
        ):
            need(self.clock >= intent.due_ns, "no timer before its time", self.seq)
        self._settle(record, intent)

    def _stream(self, record: Record) -> None:
        intent = self._intent(record)
        need(
            record["intent"] in self.cells[intent.cell].open, "a stream of an open intent", self.seq
        )
        names = (
            "intent",
            "effect",
            "executor",
            "key_id",
            "attempt",
            "frame_seq",
            "frame_kind",
            "payload_ref",
        )
        body = {name: record[name] for name in names if name in record}
        payload = self._content(record["payload"])
        self._signed(
            record, intent, ["aos/stream/1", {**body, "world": self.world, "payload": payload}]
        )
        need(record["frame_seq"] > intent.frame, "stream frames in order", self.seq)
        intent.frame = record["frame_seq"]
        self._put(intent.cell, (self.seq, 0))

    def _attempt(self, record: Record) -> None:
        intent = self._intent(record)
        if record["phase"] == "lost":
            need(intent.once, "only at-most-once effects are lost", self.seq)
            need(intent.halted is None, "no attempt that did not run is lost", self.seq)
            self.owed.append((record["intent"], "loss"))
            return
        if record["phase"] in ("held", "parked"):
            last = intent.attempt or (0 if intent.once else 1)
            need(record["attempt"] == last > 0, "the last attempt is held or parked", self.seq)
            need(0 < len(record["code"].encode()) <= 128, "a halt has a code", self.seq)
            intent.halted = record["phase"]
            return
        need(
            record["attempt"] > max(intent.attempt, 0 if intent.once else 1),
            "ascending attempts",
            self.seq,
        )
        need(
            not intent.once or record["attempt"] == 1 or intent.halted == "held",
            "one attempt of an at-most-once effect",
            self.seq,
        )
        intent.attempt = record["attempt"]
        intent.halted = None

    def _snapshot(self, record: Record) -> None:
        """SN-1, SN-3."""
        need(
            set(record) == {"kind", "seq", "stamp", "at", "frame", "document"}
            and set(record["document"]) == {"hash", "size"},
            "a snapshot's fields",
            self.seq,
        )
        at = record["at"]
        need(self.snapshot < at < self.seq, "snapshots in order", self.seq, self.snapshot, at)
        need(self.ends.get(at) == record["frame"], "a snapshot after a whole frame", self.seq, at)
        data = self.blob(record["document"]["hash"])
        need(data is not None, "a snapshot's document", self.seq)
        assert data is not None
        document = decoded(data)
        need(len(data) == record["document"]["size"], "a snapshot's document", self.seq)
        same = (document["world"], document["seq"], document["frame"])
        need(same == (self.world, at, record["frame"]), "a snapshot of its place", self.seq)
        self.snapshot = at

    def _control(self, record: Record) -> None:
        about = [record.get(name) for name in ("cell", "intent", "value")]
        message = ["aos/control/1", self.world, record["serial"], record["action"], *about]
        if record["action"] in ("settle", "end", "remove"):
            names = {"settle": ["intent", "status"], "end": ["cell", "status", "why"]}
            chosen = names.get(record["action"], ["cell", "why"])
            fields = {name: record.get(name) for name in chosen}
            if record["action"] == "settle":
                fields["payload"] = self._content(record["payload"])
            message = ["aos/control/2", *message[1:4], fields]
        if "restamp" in record:
            is_resumed = record["action"] in ("retry", "skip")
            need(is_resumed and record["restamp"] is True, "a restamp", self.seq)
            fields = {"cell": record["cell"], "restamp": True}
            message = ["aos/control/2", *message[1:4], fields]
        need(record["serial"] == self.controls, "control serials in order", self.seq)
        key = self.operators[record["principal"]]
        need(is_signed(message, record["signature"], key), "a signed command", self.seq)
        self.controls += 1
        if record["action"] == "cancel":
            self.owed.append((record["intent"], "cancel"))
        if record["action"] == "settle":
            need(record["status"] in ("ok", "error"), "a status of a settlement", self.seq)
            self.owed.append((record["intent"], "settle"))
            self.stated[record["intent"]] = record["status"], self._content(record["payload"])
        if record["action"] in ("end", "remove"):
            self._end(record)
        if record["action"] in ("retry", "skip"):
            id = _cell(record["cell"])
            cell = self.cells[id]
            need(cell.fault, "a retry or skip of a failed cell", self.seq)
            if record["action"] == "skip":
                need(
                    cell.fault not in FROM_OUTSIDE,
                    "only the entry that failed is skipped",
                    self.seq,
                )
                cell.entries.popleft()
            cell.fault = None
            self._ready(id)

    def _end(self, record: Record) -> None:
        """K-109: nothing of the work of an instance is left."""
        id = _cell(record["cell"])
        cell = self.cells[id]
        is_removed = record["action"] == "remove"
        need(is_removed or record["status"] in ("completed", "failed"), "an end", self.seq)
        need(record.get("dropped", 0) == len(cell.entries), "the dropped mail counted", self.seq)
        need(record.get("abandoned", []) == cell.open, "abandoned what was open", self.seq)
        self._abandon(cell)
        cell.entries.clear()
        cell.fault = None
        if id in self.ring:
            self.ring.remove(id)
        if is_removed:
            cell.has_state = False
            self.asked.pop(id, None)

    # Consequences

    def _step(self, record: Record) -> None:
        id, root = self._head(record)
        cell = self.cells[id]
        cell.entries.popleft()
        for asked in record.get("intents", []):
            need(asked["intent"] not in self.intents, "each intent opened once", self.seq)
            limits = self.limits_at[record["under"]] if "under" in record else self.step_limits
            self._opens(id, asked, limits[id[0]].get("keys", self.limits["instance_keys"]))
        for index, event in enumerate(record.get("events", [])):
            self._deliver(event, (self.seq, index), runs=id)
        cell.has_state = "state" in record
        if "state" not in record:
            need(record.get("abandoned", []) == cell.open, "every open intent abandoned", self.seq)
            self._abandon(cell)
            self.asked.pop(id, None)
        else:
            need("abandoned" not in record, "nothing abandoned by a cell that stays", self.seq)
        self._ready(id)
        need(root <= self.seq, "a cause before its effect", self.seq)

    def _opens(self, id: Cell, asked: Record, keys_max: int) -> None:
        params = self._value(asked["params"])
        effect = self.effects[asked["effect"]]
        is_timer = asked["effect"] == "sys/timer.set@1"
        due = decoded(params)["deliver_at_ns"] if is_timer and params is not None else None
        self.intents[asked["intent"]] = Intent(
            cell=id, effect=asked["effect"], opened=self.seq, executors=self.executors, due_ns=due,
            once=effect.get("delivery") == "at_most_once",
            key=self._same(id, effect, asked, keys_max),
        )  # fmt: skip
        self.cells[id].open.append(asked["intent"])
        if asked["effect"].startswith(KERNEL):
            self.owed.append((asked["intent"], "answer"))

    def _same(self, id: Cell, effect: Record, asked: Record, keys_max: int) -> bytes:
        """K-21, K-22: an effect's idempotency key; orders with the same key have equal params."""
        if "key" not in asked:
            return bytes(asked["intent"])
        is_worlds = effect.get("idempotency_scope") == "world"
        who = (None, None) if is_worlds else id
        key = hashed("aos/idempotency/1", self.world, *who, asked["effect"], asked["key"])
        known = self.asked.setdefault("world" if is_worlds else id, {})
        params = self._content(asked["params"])
        need(known.pop(key, params) == params, "a key for one thing alone", self.seq)
        known[key] = params
        while len(known) > (self.limits["dedup_rows"] if is_worlds else keys_max):
            del known[next(iter(known))]
        return key

    def _fault(self, record: Record) -> None:
        id, _ = self._head(record)
        need(not self.cells[id].fault, "no step of a failed cell", self.seq)
        self.cells[id].fault = record["fault"]["kind"]

    def _kernel_receipt(self, record: Record) -> None:
        intent = self._intent(record)
        need(self.owed, "a receipt that the core owes", self.seq)
        hash, why = self.owed[0]
        if "by" in record:
            canceler = self.intents[record["by"]]
            need(
                record["by"] == hash and why == "answer",
                "canceled by the intent that is answered",
                self.seq,
            )
            need(canceler.cell == intent.cell, "canceled by its own cell", self.seq)
            need(
                canceler.effect.startswith(("sys/timer.cancel@", "sys/effect.cancel@")),
                "by a cancel",
                self.seq,
            )
            need(
                "timer.cancel" not in canceler.effect or "timer.set" in intent.effect,
                "a timer",
                self.seq,
            )
        else:
            need(record["intent"] == hash, "the receipt that the core owes first", self.seq)
        need(
            (why == "answer" and "by" not in record) == intent.effect.startswith(KERNEL),
            "whose it is",
            self.seq,
        )
        if why == "settle":
            receipt = record["status"], self._content(record["payload"])
            need(receipt == self.stated[hash], "the receipt that an operator stated", self.seq)
        elif why != "answer" or "by" in record:
            need(
                record["status"] == ("error" if why == "loss" else "canceled"),
                "its status",
                self.seq,
            )
        self._settle(record, intent)

    # Shared

    def _head(self, record: Record) -> tuple[Cell, int]:
        """K-5, K-41: the ring's head, its first entry, and nothing owed before."""
        id = _cell(record["cell"])
        need(not self.owed, "no step while a receipt is owed", self.seq)
        need(self.ring and self.ring[0] == id, "the ring's head runs", self.seq, self.ring[:1], id)
        self.ring.pop(0)
        need(self.cells[id].entries[0] == tuple(record["entry"]), "first in, first out", self.seq)
        return id, record["root"]

    def _intent(self, record: Record) -> Intent:
        intent = self.intents.get(record["intent"])
        if intent is None:
            raise Broken(f"record {self.seq} is about an intent that no record opened")
        need(intent.settled is None, "each intent settled at most once", self.seq)
        need(_cell(record["cell"]) == intent.cell, "delivered to its origin alone", self.seq)
        need(record.get("effect", intent.effect) == intent.effect, "of its own effect", self.seq)
        return intent

    def _signed(self, record: Record, intent: Intent, message: Any) -> None:
        """K-51, K-106."""
        key, name = record["key_id"], record["executor"]
        if intent.executors is None:
            could = name == "node" and key == self.world_key
        else:
            could = any(
                each["name"] == name and each["public_key"] == f"ed25519:{key.hex()}"
                and intent.effect in each["effects"]
                for each in intent.executors
            )  # fmt: skip
        need(could, "an executor that may sign", self.seq, name)
        need(key not in self.revoked, "a key that is not revoked", self.seq)
        need(is_signed(message, record["signature"], key), "a signed receipt", self.seq)
        need(record["attempt"] >= max(1, intent.attempt), "of no old attempt", self.seq)
        need(not intent.effect.startswith(KERNEL), "the core's own answer", self.seq)

    def _settle(self, record: Record, intent: Intent) -> None:
        intent.settled = self.seq
        cell = self.cells[intent.cell]
        self.owed = [each for each in self.owed if each[0] != record["intent"]]
        need(
            intent.is_abandoned == (record["outcome"] == "abandoned"), "abandoned or not", self.seq
        )
        if intent.is_abandoned:
            return
        cell.open.remove(record["intent"])
        if record["outcome"] in ("delivered", "rejected"):
            self._put(intent.cell, (self.seq, 0))
        elif record["outcome"] == "overloaded":
            self._overload(intent.cell)
        else:
            need(record.get("abandoned", []) == cell.open, "every open intent abandoned", self.seq)
            self._fail(intent.cell, "receipt_invalid")
            self._abandon(cell)

    def _abandon(self, cell: Mailbox) -> None:
        for hash in cell.open:
            self.intents[hash].is_abandoned = True
            self.owed = [each for each in self.owed if each[0] != hash]
        cell.open = []

    def _deliver(self, event: Record, entry: tuple[int, int], runs: Cell | None = None) -> None:
        # Two routes may lead to one cell, and only the second may create it.
        for cell in event.get("unknown", []):
            missed = self.cells.get(_cell(cell), Mailbox())
            exists = missed.has_state or missed.entries or missed.fault
            need(not exists, "no existing instance is unknown", self.seq, cell)
        for cell in event.get("to", []):
            need(not self._is_far(_cell(cell)), "no event in another shard", self.seq, cell)
            self._put(_cell(cell), entry, runs)
        for cell in event.get("overloaded", []):
            self._overload(_cell(cell))

    def _is_far(self, id: Cell) -> bool:
        """Whether another shard has this cell. Keys in these worlds are texts, placed by the part
        before ``|``, or their workflow is in each shard."""
        workflow, key = id
        if self.shard is None or self.shard_by.get(workflow) is None:
            return False
        text: str = decoded(key)
        part = encoded(text.partition("|")[0])
        index, count = self.shard
        number = int(blake3(part).hexdigest()[:16], 16)
        return bool(number % count != index)

    def _put(self, id: Cell, entry: tuple[int, int], runs: Cell | None = None) -> None:
        cell = self.cells.setdefault(id, Mailbox())
        is_full = len(cell.entries) >= self.limits["mailbox"]
        if is_full and cell.fault:
            return
        need(not is_full, "no mailbox past its bound", self.seq, id)
        cell.entries.append(entry)
        if id != runs:
            self._ready(id)

    def _overload(self, id: Cell) -> None:
        cell = self.cells.setdefault(id, Mailbox())
        need(
            len(cell.entries) >= self.limits["mailbox"],
            "overloaded only where it is full",
            self.seq,
            id,
        )
        self._fail(id, "overloaded")

    def _fail(self, id: Cell, kind: str) -> None:
        cell = self.cells[id]
        cell.fault = cell.fault or kind
        if id in self.ring:
            self.ring.remove(id)

    def _ready(self, id: Cell) -> None:
        cell = self.cells[id]
        if cell.entries and not cell.fault and id not in self.ring:
            self.ring.append(id)

    def _value(self, slot: Any) -> bytes | None:
        return slot if isinstance(slot, bytes) else self.blob(slot["hash"])

    def _content(self, slot: Any) -> bytes:
        if isinstance(slot, bytes):
            return blake3(slot).digest()
        data, hash = self.blob(slot["hash"]), slot["hash"]
        need(data is None or blake3(data).digest() == hash, "bytes of their hash", self.seq)
        return bytes(hash)


def way_up(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that a path leads to. Lowest sibling first."""
    need(0 <= index < size <= 65_536, "a place in the tree")
    if size == 1:
        need(not path, "a path as long as the way")
        return leaf
    need(path, "a path as long as the way")
    split = 1
    while split * 2 < size:
        split *= 2
    if index < split:
        return hashed("aos/node/1", way_up(leaf, index, split, path[:-1]), path[-1])
    return hashed("aos/node/1", path[-1], way_up(leaf, index - split, size - split, path[:-1]))


def _cell(named: Sequence[Any]) -> Cell:
    workflow, key = named
    return workflow, key


# Everything that was reported to the outside, compared with the journal.


@dataclass(frozen=True)
class Published:
    """An intent was handed to executors when the journal was durable up to ``durable``."""

    durable: int
    intent: bytes
    idempotency_key: str


@dataclass(frozen=True)
class Told:
    """An input was acknowledged as record ``seq``."""

    seq: int
    kind: str
    fields: Mapping[str, Any]


def check(
    frames: Iterable[bytes],
    blob: Blob,
    *,
    told: Iterable[Told] = (),
    published: Iterable[Published] = (),
    runs: Iterable[tuple[bytes, int, bool]] = (),
) -> Reader:
    """Read a whole journal and hold it against what is known outside.

    Raises:
        Broken: The first promise that it does not keep.
    """
    reader = Reader(blob)
    for data in frames:
        reader.frame(data)
    for each in told:
        _acknowledged(reader, each)
    for one in published:
        _published(reader, one)
    seen: set[bytes] = set()
    for intent, _, is_once in runs:
        need(intent in reader.intents, "only what is journaled runs", intent.hex()[:16])
        need(
            not is_once or intent not in seen, "an at-most-once effect runs once", intent.hex()[:16]
        )
        seen.add(intent)
    return reader


def _acknowledged(reader: Reader, told: Told) -> None:
    need(told.seq <= reader.seq, "every acknowledged input is in the journal", told.seq, reader.seq)
    record = reader.records[told.seq - 1]
    need(
        record["kind"] == told.kind,
        "an acknowledged input is in the journal as it was sent",
        told.seq,
        told.kind,
    )
    for name, given in told.fields.items():
        found, value = record.get(name), list(given) if isinstance(given, tuple) else given
        if isinstance(found, dict) and set(found) == {"hash", "size"}:
            found, value = found["hash"], blake3(given).digest()
        need(
            found == value, "an acknowledged input is in the journal as it was sent", told.seq, name
        )


def _published(reader: Reader, one: Published) -> None:
    """K-50, K-96: durable before it was known, and not settled then."""
    intent = reader.intents.get(one.intent)
    if intent is None:
        raise Broken(f"published what is not in the journal: {one.intent.hex()[:16]}")
    need(intent.opened <= one.durable, "durable before it is published", intent.opened, one.durable)
    is_over = intent.settled is not None and intent.settled <= one.durable
    need(not is_over, "nothing settled is published again", intent.settled, one.durable)
    need(
        not intent.effect.startswith(KERNEL),
        "no executor gets an effect of the core",
        intent.effect,
    )
    need(one.idempotency_key == f"blake3:{intent.key.hex()}", "its idempotency key", intent.opened)
