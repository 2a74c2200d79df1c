"""The programs of modules/conformance/flow, interpreted directly.

It shares no code with the engine and replays nothing: the bodies of a flow are Python generators
that stay alive from one turn to the next. ``Flow.turn`` gets what a cell gets, in the same order,
and returns what the cell must then ask and emit (spec/flow.md).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from aos.values.cbor import encode

Node: TypeAlias = dict[str, Any]
Body: TypeAlias = Generator[None, None, str]

SECOND: Final = 10**9
PAUSE_MAX: Final = 60 * SECOND
TIME_MAX: Final = 2**63 - 1
UNDO_ATTEMPTS: Final = 5
LISTENED: Final = {
    "listen": ["f/Note@1"],
    "listen_either": ["f/Note@1", "f/Bell@1"],
    "listen_n": ["f/Note@1"],
    "listen_with_timeout": ["f/Note@1"],
    "listen_until": ["f/Bell@1"],
    "listen_n_with_timeout": ["f/Note@1", "f/Bell@1"],
    "listen_n_until": ["f/Note@1"],
}


class Failed(Exception):
    """A terminal failure."""

    def __init__(self, kind: str, code: str, path: str = "", causes: Iterable[Failed] = ()) -> None:
        super().__init__(kind, code)
        self.kind = kind
        self.code = code
        self.path = path
        self.causes = list(causes)

    def at(self, path: str) -> Failed:
        """Itself, with this path if it has none."""
        return self if self.path else Failed(self.kind, self.code, path, self.causes)

    @property
    def words(self) -> str:
        causes = "".join(each.words for each in self.causes)
        return f"!{self.kind}.{self.code}@{self.path}[{causes}]"

    @property
    def shape(self) -> list[Any]:
        """The failure as it is stored, without its message."""
        return [self.kind, self.code, self.path, [each.shape for each in self.causes]]


def critical(code: str) -> Failed:
    return Failed("critical", code)


@dataclass(eq=False)
class Message:
    schema: str
    text: str
    number: int
    """How many messages came to this cell before it."""
    taken_in: tuple[Op, ...] = ()
    """The branches in which it was consumed."""


@dataclass(eq=False)
class Undo:
    """A compensation."""

    path: str
    what: str
    within: tuple[Op, ...]
    """The branches around its step."""
    state: str = "registered"
    attempts: int = 0


@dataclass(eq=False)
class Op:
    """An operation, while it is open."""

    kind: str
    path: str
    parent: Op | None
    is_open: bool = True
    children: list[Op] = field(default_factory=list)
    checkpoints: dict[str, list[Undo]] = field(default_factory=dict)
    """By name, of the body of this operation: the compensations that there were."""
    taken: list[Message] = field(default_factory=list)
    """Of a branch: the messages to give back if it is canceled."""
    node: Node = field(default_factory=dict)
    around: str = ""
    attempts: int = 0
    is_paused: bool = False
    doubt: bool = False
    deadline: int | None = None
    awaits: str = ""
    """Of a step or call with a rollback: ``canceled`` or ``timed_out``; it waits for its answer."""
    is_forgotten: bool = False
    """Its rollback does not count any more."""
    ended: str | Failed | None = None
    child: str = ""

    @property
    def branches(self) -> tuple[Op, ...]:
        """The branches around it, and itself if it is one, innermost first."""
        own = (self,) if self.kind == "branch" else ()
        return own + (self.parent.branches if self.parent else ())


@dataclass
class Turn:
    """The requests and events of a turn."""

    asks: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Effect, its text, requested key, issuer reference; in order."""
    timers: list[tuple[str, int]] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    emits: list[tuple[Any, ...]] = field(default_factory=list)


def escaped(name: str) -> str:
    name = name.replace("%", "%25").replace("/", "%2F")
    return "%7E" + name[1:] if name.startswith("~") else name


class Flow:
    """One cell. ``schema`` is the prefix of its schemas: ``f/Run`` or ``f/Part``. Its version of
    the code leaves out nodes with the flag ``without``."""

    def __init__(self, schema: str, key: str, *, without: str = "later") -> None:
        self.schema = schema
        self.key = key
        self.without = without
        self.program: Node | None = None
        self.parent: Node | None = None
        self.started = 0
        self.now = 0
        self.root = Op("root", "", None)
        self.run: Body | None = None
        self.output: str | None = None
        self.error: Failed | None = None
        self.inbox: list[Message] = []
        self.messages = 0
        self.undos: list[Undo] = []
        self.made = Turn()
        self.has_progressed = False

    # Mail.

    def turn(self, now: int, arm: str, value: Any) -> Turn | None:
        """Return what the turn makes; None if the state must stay as it is."""
        self.now = now
        self.made = Turn()
        if self.has_ended or not self.takes(arm, value):
            return self.refused(arm, value)
        if self.program is not None:
            self.go_on()
            self.tell_end()
        return self.made

    def takes(self, arm: str, value: Any) -> bool:
        if arm == "Message":
            if self.error is not None:
                return False
            self.inbox.append(Message(value[0], value[1], self.messages))
            self.messages += 1
            return True
        if self.program is None:
            return arm in ("Start", "Call") and self.start(arm, value)
        match arm:
            case "Control":
                return self.control(value["$tag"], value.get("$value"))
            case "Return":
                return self.returned(value)
            case "Receipt":
                return self.receipt(*value)
        return False

    def refused(self, arm: str, value: Any) -> Turn | None:
        if arm != "Call":
            return None
        self.answer(value["reply"], "Failed", critical("exists").shape)
        return self.made

    def start(self, arm: str, value: Any) -> bool:
        self.program = value["input"] if arm == "Call" else value
        self.parent = value["reply"] if arm == "Call" else None
        self.started = self.now
        assert self.program is not None
        self.run = self.body(self.program["body"], self.root, "")
        return True

    def control(self, command: str, value: Any) -> bool:
        if command == "Continue":
            return True
        if command == "Resume":
            return self.resume(skip=value["skip"])
        if value.get("parent") not in (None, self.parent):
            return False
        if self.error is not None and value["rollback"]:
            return False
        if self.error is None:
            self.error = Failed("canceled", "cancel")
            self.resume(skip=False)
        if not value["rollback"]:
            for op in self.all_open(self.root):
                op.is_forgotten = True
            self.close_all()
            self.skip_undos()
        return True

    def close_all(self) -> bool:
        """Cancel all that is open. False while something waits for its answer."""
        if not self.cancel_each(self.root):
            return False
        self.root.children.clear()
        self.run = None
        self.inbox.clear()
        return True

    def resume(self, *, skip: bool) -> bool:
        stuck = [undo for undo in self.undos if undo.state == "stuck"]
        for undo in stuck:
            undo.state = "skipped" if skip else "registered"
        return bool(stuck)

    def skip_undos(self) -> None:
        for undo in self.undos:
            if undo.state == "running":
                for role in ("", ":retry"):
                    self.made.cancels.append(f"flow:{undo.path}/~undo#{undo.attempts}{role}")
            if undo.state != "done":
                undo.state = "skipped"

    # A turn.

    @property
    def has_ended(self) -> bool:
        if self.output is not None:
            return True
        return (
            self.error is not None
            and not self.root.children
            and all(undo.state in ("done", "skipped") for undo in self.undos)
        )

    @property
    def status(self) -> str:
        if self.program is None:
            return "pending"
        if self.output is not None:
            return "completed"
        if self.has_ended:
            is_canceled = self.error is not None and self.error.shape == [
                "canceled", "cancel", "", [],
            ]  # fmt: skip
            return "cancelled" if is_canceled else "failed"
        if any(undo.state == "stuck" for undo in self.undos):
            return "stuck"
        if self.error is not None:
            return "rolling_back"
        kinds = {each.kind for each in self.all_open(self.root)}
        if "rollback_to" in kinds or any(undo.state == "running" for undo in self.undos):
            return "rolling_back"
        if kinds & {"step", "call"}:
            return "running"
        return "sleeping" if kinds & {"sleep", "listen"} else "running"

    def all_open(self, op: Op) -> list[Op]:
        found = [op] if op.is_open else []
        return found + [each for child in op.children for each in self.all_open(child)]

    def go_on(self) -> None:
        while self.error is None and self.output is None:
            self.has_progressed = False
            assert self.run is not None
            try:
                next(self.run)
            except StopIteration as over:
                self.output = over.value
                self.undos.clear()
            except Failed as failed:
                self.error = failed
            if not self.has_progressed:
                break
        if self.error is not None and self.close_all():
            self.unwind(self.undos)

    def tell_end(self) -> None:
        if not self.has_ended:
            return
        self.inbox.clear()
        if self.parent is None:
            return
        if self.error is None:
            self.answer(self.parent, "Ok", self.output)
        else:
            self.answer(self.parent, "Failed", self.error.shape)

    def answer(self, reply: Node, arm: str, value: Any) -> None:
        self.made.emits.append((reply["schema"], reply["path"], reply["attempt"], arm, value))

    # Bodies.

    def nodes_of(self, numbers: list[int]) -> list[Node]:
        """The nodes of a body that are in this version."""
        assert self.program is not None
        nodes = [self.program["nodes"][number] for number in numbers]
        return [node for node in nodes if self.without not in node["flags"]]

    def body(self, numbers: list[int], scope: Op, around: str) -> Body:
        parts = []
        for node in self.nodes_of(numbers):
            if node["op"] == "return":
                break
            try:
                value = yield from self.operation(node, scope, around)
            except Failed as failed:
                if "catch" not in node["flags"]:
                    raise
                value = failed.words
            parts.append(value + ";")
        return "".join(parts)

    def operation(self, node: Node, scope: Op, around: str) -> Body:
        if node["op"] == "fail":
            kind = "rollback" if "rollback" in node["flags"] else "critical"
            raise Failed(kind, node["text"])
        if node["op"] == "removed":
            return ""
        op = self.begin(node["op"], node["name"], scope)
        op.node, op.around = node, around
        self.has_progressed = True
        try:
            value = yield from self.kinds(op)
        except Failed as failed:
            raise failed.at(op.path) from None
        finally:
            # A flow that has ended has dropped its operations, and this body with them.
            if op.is_open and op.ended != "canceled" and op in scope.children:
                op.is_open = False
                scope.children.remove(op)
        self.has_progressed = True
        return value

    def begin(self, kind: str, name: str, parent: Op, *, is_iteration: bool = False) -> Op:
        part = name if is_iteration else escaped(name)
        op = Op(kind, f"{parent.path}/{part}".removeprefix("/"), parent)
        parent.children.append(op)
        return op

    def kinds(self, op: Op) -> Body:
        node, what = op.node, op.node["name"] + op.around
        match op.kind:
            case "step":
                return (yield from self.step(op, what))
            case "local":
                return f"{what}={self.now - self.started}"
            case "emit":
                self.made.emits.append(("f/Told@1", what))
                return ""
            case "sleep" | "sleep_until":
                return (yield from self.sleep(op))
            case "join":
                return (yield from self.join(op))
            case "race":
                return (yield from self.race(op))
            case "scope":
                return (yield from self.body(node["nodes"], op, op.around))
            case "loop":
                return (yield from self.loop(op))
            case "checkpoint":
                assert op.parent is not None
                op.parent.checkpoints[node["name"]] = list(self.undos)
                return ""
            case "rollback_to":
                return (yield from self.rollback_to(op))
            case "commit":
                self.commit(op)
                return ""
            case "version":
                return str(node["number"])
            case "call":
                return (yield from self.call(op))
            case "spawn":
                self.made.emits.append(("f/Part@1", self.child_of(op)))
                return ""
        return (yield from self.listen(op))

    # Steps.

    def step(self, op: Op, what: str) -> Body:
        node = op.node
        if node["number"] == 0:
            raise critical("retry")
        if node["span"] < 0:
            raise critical("duration")
        if node["limit"] is not None:
            op.deadline = self.after(node["limit"])
            self.made.timers.append((f"flow:{op.path}#1:timeout", op.deadline))
        self.attempt(op, what)
        while op.ended is None:
            yield
        if isinstance(op.ended, Failed):
            raise op.ended
        return op.ended

    def after(self, wait: int) -> int:
        if wait < 0 or self.now + wait > TIME_MAX:
            raise critical("duration")
        return self.now + wait

    def attempt(self, op: Op, what: str) -> None:
        op.attempts += 1
        op.is_paused = False
        self.made.asks.append(("f/do@1", what, op.path, f"flow:{op.path}#{op.attempts}"))

    def receipt(self, reference: str | None, status: str, code: str, text: Any) -> bool:
        """Fold a receipt: its reference, status (or ``rejected``), code and note or retryable."""
        if reference is None:
            return False
        path, _, rest = reference.removeprefix("flow:").rpartition("#")
        attempt, _, role = rest.partition(":")
        if path.endswith("/~undo"):
            return self.undo_settled(path.removesuffix("/~undo"), int(attempt), role, status)
        found = [op for op in self.all_open(self.root) if op.path == path and op.ended is None]
        if not found:
            return False
        op = found[0]
        match op.kind, role:
            case "step", "timeout":
                self.time_out(op)
            case "step", "cancel" if op.awaits and op.attempts == int(attempt):
                self.step_settled(op, "canceled", "", None)
            case "step", "retry" if op.is_paused and op.attempts == int(attempt):
                self.attempt(op, op.node["name"] + op.around)
            case "step", "" if not op.is_paused and op.attempts == int(attempt):
                self.step_settled(op, status, code, text)
            case ("sleep", "sleep") | ("listen", "listen"):
                op.ended = ""
            case _:
                return False
        return True

    def time_out(self, op: Op) -> None:
        op.deadline = None
        if not self.awaits_answer(op, "timed_out"):
            self.cancel_attempt(op)
            self.end_step(op, Failed("timeout", "timeout"))

    def awaits_answer(self, op: Op, why: str) -> bool:
        """Whether a step with a rollback has an attempt in flight, which is then canceled."""
        if op.is_paused or op.is_forgotten or "rollback" not in op.node["flags"]:
            return False
        if not op.awaits:
            self.made.cancels.append(f"flow:{op.path}#{op.attempts}")
        if op.awaits != "canceled":
            op.awaits = why
        return True

    def cancel_attempt(self, op: Op) -> None:
        if op.is_paused:
            self.made.cancels.append(f"flow:{op.path}#{op.attempts}:retry")
        else:
            self.made.cancels.append(f"flow:{op.path}#{op.attempts}")
            op.doubt = True

    def end_step(self, op: Op, ended: str | Failed) -> None:
        op.ended = ended
        if op.deadline is not None:
            self.made.cancels.append(f"flow:{op.path}#1:timeout")
        if isinstance(ended, Failed):
            self.register_unknown(op)
        elif "rollback" in op.node["flags"]:
            self.undos.append(Undo(op.path, ended, op.branches))

    def register_unknown(self, op: Op) -> None:
        if op.doubt and "rollback_unknown" in op.node["flags"]:
            self.undos.append(Undo(op.path, f"?{op.node['name']}{op.around}", op.branches))

    def step_settled(self, op: Op, status: str, code: str, text: Any) -> None:
        node = op.node
        is_retried = False
        match status:
            case "ok":
                return self.end_step(op, text)
            case "error" if code == "rollback":
                failed = Failed("rollback", code)
            case "error":
                failed = critical(code)
                is_retried = text or code == "exception"
            case "timeout":
                failed = Failed("timeout", "timeout")
                is_retried = "retry_timeouts" in node["flags"]
            case "canceled":
                failed = Failed("canceled", "canceled")
            case _:
                failed = critical(code)
        op.doubt |= status in ("timeout", "canceled", "rejected")
        op.doubt |= code in ("unknown_outcome", "exception")
        if op.awaits == "timed_out":
            return self.end_step(op, Failed("timeout", "timeout"))
        if op.awaits:
            self.end_step(op, failed)
            return self.drop(op)
        if not is_retried:
            return self.end_step(op, failed)
        if op.attempts >= node["number"]:
            return self.end_step(op, Failed("exhausted", failed.code))
        op.is_paused = True
        pause = min(node["span"] * 2 ** (op.attempts - 1), PAUSE_MAX)
        self.made.timers.append((f"flow:{op.path}#{op.attempts}:retry", self.now + pause))
        return None

    # Waits.

    def sleep(self, op: Op) -> Body:
        is_until = op.kind == "sleep_until"
        op.kind = "sleep"
        span = op.node["span"]
        deadline = self.started + span if is_until else self.after(span)
        if deadline <= self.now:
            return ""
        op.deadline = deadline
        self.made.timers.append((f"flow:{op.path}#1:sleep", deadline))
        while op.ended is None:
            yield
        return ""

    def listen(self, op: Op) -> Body:
        way, op.kind = op.kind, "listen"
        schemas, span = LISTENED[way], op.node["span"]
        is_many = "_n" in way
        most = op.node["number"] if is_many else 1
        if most == 0:
            raise critical("count")
        deadline = None
        if way.endswith("timeout"):
            deadline = self.after(span)
        elif way.endswith("until"):
            deadline = self.started + span
        found = self.consume(op, schemas, most)
        if found:
            return "+".join(found)
        nothing = "" if is_many else "none"
        if deadline is not None:
            if deadline <= self.now:
                return nothing
            op.deadline = deadline
            self.made.timers.append((f"flow:{op.path}#1:listen", deadline))
        while True:
            yield
            if op.ended is not None:
                return nothing
            found = self.consume(op, schemas, most)
            if found:
                if deadline is not None:
                    self.made.cancels.append(f"flow:{op.path}#1:listen")
                return "+".join(found)

    def consume(self, op: Op, schemas: list[str], most: int) -> list[str]:
        found = [each for each in self.inbox if each.schema in schemas][:most]
        for message in found:
            self.inbox.remove(message)
            message.taken_in = op.branches
            for branch in op.branches:
                branch.taken.append(message)
        return [message.text for message in found]

    # Branches.

    def open_branches(self, op: Op) -> list[tuple[Op, Body]]:
        found = []
        for part in self.nodes_of(op.node["nodes"]):
            branch = self.begin("branch", part["name"], op)
            found.append((branch, self.body(part["nodes"], branch, op.around)))
        return found

    def poll(self, branch: Op, body: Body) -> str | Failed | None:
        try:
            next(body)
        except StopIteration as over:
            branch.ended = over.value
        except Failed as failed:
            branch.ended = failed.at(branch.path)
        else:
            return None
        branch.is_open = False
        self.has_progressed = True
        return branch.ended

    def join(self, op: Op) -> Body:
        branches = self.open_branches(op)
        if op.node["number"] == 0:
            op.children.clear()
            raise critical("at_most")
        begun: list[Op] = []
        while True:
            for branch, body in branches:
                if branch.ended is not None:
                    continue
                if branch not in begun:
                    if len([each for each in begun if each.ended is None]) >= op.node["number"]:
                        continue
                    begun.append(branch)
                ended = self.poll(branch, body)
                if isinstance(ended, Failed) and ended.kind == "rollback":
                    yield from self.lose(branches)
                    raise ended
            ends = [branch.ended for branch, _ in branches]
            if None not in ends:
                causes = [each for each in ends if isinstance(each, Failed)]
                if causes:
                    raise Failed("join", "join", "", causes)
                return "|".join(str(each) for each in ends)
            yield

    def race(self, op: Op) -> Body:
        branches = self.open_branches(op)
        while True:
            for branch, body in branches:
                if branch.ended is not None:
                    continue
                ended = self.poll(branch, body)
                if isinstance(ended, Failed):
                    if ended.kind == "rollback":
                        yield from self.lose(branches)
                        raise ended
                elif ended is not None:
                    yield from self.lose(branches)
                    yield from self.undo_losers(op, branch)
                    name = self.name_of(op, branch, branches)
                    return f"{name}={ended}"
            ends = [branch.ended for branch, _ in branches]
            if None not in ends:
                causes = [each for each in ends if isinstance(each, Failed)]
                raise Failed("race", "race", "", causes)
            yield

    def name_of(self, op: Op, winner: Op, branches: list[tuple[Op, Body]]) -> str:
        place = [branch for branch, _ in branches].index(winner)
        name: str = self.nodes_of(op.node["nodes"])[place]["name"]
        return name

    def undo_losers(self, op: Op, winner: Op) -> Generator[None, None, None]:
        if "rollback_losers" not in op.node["flags"]:
            return
        losers = [each for each in op.children if each is not winner]
        undos = [undo for undo in self.undos if any(each in undo.within for each in losers)]
        while not self.unwind(undos):
            yield
        self.undos = [undo for undo in self.undos if undo not in undos]

    def lose(self, branches: list[tuple[Op, Body]]) -> Generator[None, None, None]:
        """Cancel the branches that are open; their messages go back to where they were."""
        left = branches[::-1]
        while left:
            for branch, body in left:
                if branch.ended is None and self.cancel(branch):
                    body.close()
                    self.give_back(branch)
            left = [(branch, body) for branch, body in left if branch.ended is None]
            if left:
                yield

    def cancel(self, op: Op) -> bool:
        """Cancel what is open in an operation, then itself. False while an answer has to come."""
        if not op.is_open or op.ended is not None:
            return True
        if not self.cancel_each(op):
            return False
        match op.kind:
            case "step":
                if self.awaits_answer(op, "canceled"):
                    return False
                self.cancel_attempt(op)
                self.end_step(op, Failed("canceled", "canceled"))
            case "sleep" | "listen":
                if op.deadline is not None:
                    self.made.cancels.append(f"flow:{op.path}#1:{op.kind}")
            case "call":
                if not self.cancel_call(op):
                    return False
        self.drop(op)
        return True

    def cancel_each(self, op: Op) -> bool:
        """Cancel each child, also behind one that waits."""
        over = [self.cancel(child) for child in op.children]
        return all(over)

    def cancel_call(self, op: Op) -> bool:
        waits = "rollback" in op.node["flags"] and not op.is_forgotten
        if not (waits and op.awaits):
            reply = self.reply(op)
            self.made.emits.append(("f/PartControl@1", op.child, "Cancel", reply))
        if waits:
            op.awaits = "canceled"
        return not waits

    def drop(self, op: Op) -> None:
        op.is_open = False
        op.ended = "canceled"

    def give_back(self, branch: Op) -> None:
        back = branch.taken
        for message in back:
            for other in message.taken_in:
                if other is not branch:
                    other.taken.remove(message)
        branch.taken = []
        self.inbox = sorted([*back, *self.inbox], key=lambda message: message.number)
        self.has_progressed |= bool(back)

    # Loops.

    def loop(self, op: Op) -> Body:
        if op.node["every"] == 0:
            raise critical("interval")
        text = ""
        count = 0
        while True:
            iteration = self.begin("iteration", f"~{count}", op, is_iteration=True)
            around = f"{op.around}.{count}"
            text += yield from self.body(op.node["nodes"], iteration, around)
            op.children.remove(iteration)
            count += 1
            if count >= op.node["number"]:
                return text

    # Compensations.

    def is_parallel(self, op: Op, within: tuple[Op, ...]) -> bool:
        """Whether something in these branches is in a branch parallel to one around ``op``."""
        own = {each.parent: each for each in op.branches}
        return any(own.get(each.parent, each) is not each for each in within)

    def commit(self, op: Op) -> None:
        self.undos = [undo for undo in self.undos if self.is_parallel(op, undo.within)]
        for branch in op.branches:
            branch.taken = [each for each in branch.taken if self.is_parallel(op, each.taken_in)]

    def rollback_to(self, op: Op) -> Body:
        scope = op.parent
        while scope is not None and op.node["text"] not in scope.checkpoints:
            scope = scope.parent
        if scope is None:
            raise critical("checkpoint")
        before = scope.checkpoints[op.node["text"]]
        while True:
            since = [
                undo
                for undo in self.undos
                if undo not in before and not self.is_parallel(op, undo.within)
            ]
            if self.unwind(since):
                break
            yield
        self.undos = [undo for undo in self.undos if undo not in since]
        return ""

    def unwind(self, undos: list[Undo]) -> bool:
        """Continue with compensations, the newest first and one at a time. True if all are over."""
        if any(undo.state in ("running", "stuck") for undo in undos):
            return False
        left = [undo for undo in undos if undo.state == "registered"]
        if left:
            self.attempt_undo(left[-1])
        return not left

    def attempt_undo(self, undo: Undo) -> None:
        undo.state = "running"
        undo.attempts += 1
        path = undo.path + "/~undo"
        self.made.asks.append(("f/undo@1", undo.what, path, f"flow:{path}#{undo.attempts}"))

    def undo_settled(self, path: str, attempt: int, role: str, status: str) -> bool:
        for undo in self.undos:
            if (undo.path, undo.state, undo.attempts) == (path, "running", attempt):
                break
        else:
            return False
        if role == "retry":
            self.attempt_undo(undo)
        elif status == "ok":
            undo.state = "done"
        elif attempt % UNDO_ATTEMPTS == 0:
            undo.state = "stuck"
        else:
            pause = min(2 ** (attempt % UNDO_ATTEMPTS - 1) * SECOND, PAUSE_MAX)
            self.made.timers.append((f"flow:{path}/~undo#{attempt}:retry", self.now + pause))
        return True

    # Children.

    def child_of(self, op: Op) -> str:
        return f"{self.key}/{op.node['text']}{op.around}"

    def call(self, op: Op) -> Body:
        op.child = self.child_of(op)
        self.made.emits.append(("f/PartCall@1", op.child, self.reply(op)))
        while op.ended is None:
            yield
        if isinstance(op.ended, Failed):
            raise op.ended
        return op.ended

    def reply(self, op: Op) -> Node:
        """The call, as the called flow knows it."""
        key = encode(self.key)
        return {"schema": f"{self.schema}Return@1", "key": key, "path": op.path, "attempt": 1}

    def returned(self, value: Any) -> bool:
        found = [
            op
            for op in self.all_open(self.root)
            if (op.kind, op.path, op.ended) == ("call", value["path"], None)
        ]
        if not found or value["attempt"] != 1:
            return False
        result = value["result"]
        if result["$tag"] == "Ok":
            found[0].ended = result["$value"]
            if "rollback" in found[0].node["flags"]:
                self.undos.append(Undo(found[0].path, result["$value"], found[0].branches))
        elif found[0].awaits:
            self.drop(found[0])
        else:
            cause = failure(result["$value"])
            kinds = ("rollback", "timeout", "canceled", "exhausted")
            kind = cause.kind if cause.kind in kinds else "critical"
            found[0].ended = Failed(kind, cause.code, found[0].path, [cause])
        return True


def failure(stored: list[Any]) -> Failed:
    """A stored failure: kind, code, message, path, causes."""
    kind, code, _, path, causes = stored
    return Failed(kind, code, path, [failure(each) for each in causes])
