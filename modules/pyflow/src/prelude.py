import asyncio as _aos_asyncio
import copy as _aos_copy
from dataclasses import dataclass as _aos_dataclass

_aos_FlowError = FlowError


def _aos_registered(kind, name, frozen):
    def registered(cls):
        cls = _aos_dataclass(frozen=frozen)(cls)
        _aos_register(kind, name, cls)
        return cls

    return registered


def schema(name, *, frozen=False):
    return _aos_registered("schema", name, frozen)


# The build has read the other arguments, as it has those of `flow`.
def effect(
    name,
    *,
    executor,
    frozen=False,
    params=None,
    timeout_ms=None,
    delivery=None,
    idempotency_scope=None,
):
    return _aos_registered("effect", name, frozen)


def by(message, path):
    return (message, path)


@_aos_dataclass(frozen=True)
class _aos_OtherFlow:
    name: str


def other_flow(name, *, input, output=None, key):
    return _aos_OtherFlow(name)


def flow(
    name,
    *,
    key,
    listens=(),
    view=None,
    upgrade=None,
    calls=(),
    callable=False,
    annotations=None,
):
    return lambda function: function


class Nat:
    pass


@_aos_dataclass(frozen=True)
class Retry:
    attempts: int = 3
    first: object = "100ms"
    most: object = "30s"
    jitter: bool = False


@_aos_dataclass
class Continue:
    state: object


@_aos_dataclass
class Break:
    value: object = None


_aos_Retry, _aos_Continue, _aos_Break = Retry, Continue, Break


def _aos_failure(error):
    causes = [_aos_failure(cause) for cause in error.causes]
    return (error.kind, error.code, error.message, error.path, causes)


async def _aos_wait_for(answer):
    while answer[0] == "wait":
        answer = await _aos_wait(answer[1])
    return answer


async def _aos_value(*request):
    return (await _aos_wait_for(_aos_op(*request)))[1]


async def _aos_undoable(answer, rollback):
    while answer[0] != "done":
        if answer[0] == "wait":
            answer = await _aos_wait(answer[1])
        else:
            answer = _aos_op("compensation", rollback(answer[1]))
    return answer[1]


async def _aos_run(body, function, *arguments):
    try:
        value = await function(*arguments)
    except _aos_FlowError as error:
        return _aos_op("failed", body, _aos_failure(error))
    if type(value) is _aos_Continue:
        return _aos_op("continued", body, value.state)
    return _aos_op("ended", body, value.value if type(value) is _aos_Break else value)


async def _aos_branch(body, function):
    await _aos_wait(body)
    await _aos_run(body, function, _aos_Cx())


async def _aos_branches(kind, name, branches, option):
    names = list(branches)
    answer = await _aos_wait_for(_aos_op(kind, name, names, option))
    if answer[0] == "branches":
        # A branch that ended in an earlier turn has a body, too, but no answer.
        bodies = [
            _aos_branch(body, _aos_copy.deepcopy(branches[branch]))
            for body, branch in zip(answer[2], names)
        ]
        try:
            await _aos_asyncio.gather(_aos_wait(answer[1]), *bodies)
        except SystemExit:
            pass
        answer = _aos_op("end_of", answer[1])
    return answer[1]


class Local:
    def __init__(self, now):
        self.now = now

    def random(self, below=None):
        return _aos_op("random", below)[1]

    def uuid(self):
        return _aos_op("uuid")[1]


_aos_Local = Local


class Cx:
    async def step(
        self,
        name,
        effect,
        *,
        retry=None,
        retry_timeouts=False,
        timeout=None,
        rollback=None,
        rollback_unknown=None,
    ):
        retry = retry or _aos_Retry()
        policy = (retry.attempts, retry.first, retry.most, retry.jitter, retry_timeouts)
        undone = (rollback is not None, rollback_unknown)
        answer = _aos_op("step", name, effect, policy, timeout, undone)
        return await _aos_undoable(answer, rollback)

    async def local(self, name, function):
        answer = await _aos_wait_for(_aos_op("local", name))
        if answer[0] == "compute":
            try:
                value = _aos_copy.deepcopy(function)(_aos_Local(answer[1]))
            except _aos_FlowError as error:
                answer = _aos_op("not_computed", _aos_failure(error))
            else:
                answer = _aos_op("computed", value)
        return answer[1]

    async def emit(self, name, event):
        return await _aos_value("emit", name, event)

    async def sleep(self, name, time):
        return await _aos_value("sleep", name, time)

    async def listen(self, name, messages, *, timeout=None, most=None):
        schemas = messages if type(messages) in (list, tuple) else [messages]
        return await _aos_value("listen", name, list(schemas), timeout, most)

    async def join(self, name, *, at_most=None, **branches):
        values = await _aos_branches("join", name, branches, at_most)
        return dict(zip(branches, values))

    async def race(self, name, *, rollback_losers=False, **branches):
        return await _aos_branches("race", name, branches, rollback_losers)

    async def scope(self, name, function):
        answer = await _aos_wait_for(_aos_op("scope", name))
        while answer[0] == "run":
            body = _aos_copy.deepcopy(function)
            answer = await _aos_wait_for(await _aos_run(answer[1], body, _aos_Cx()))
        return answer[1]

    async def loop(
        self, name, state, function, *, commit_interval=1, history_every=1, history_keep=0
    ):
        limits = (commit_interval, history_every, history_keep)
        answer = await _aos_wait_for(_aos_op("loop", name, state, limits))
        while answer[0] == "run":
            body = _aos_copy.deepcopy(function)
            answer = await _aos_wait_for(await _aos_run(answer[1], body, _aos_Cx(), answer[2]))
        return answer[1]

    async def call(self, name, flow, input, *, rollback=None):
        answer = _aos_op("call", name, flow.name, input, rollback is not None)
        return await _aos_undoable(answer, rollback)

    async def spawn(self, name, flow, input):
        return await _aos_value("spawn", name, flow.name, input)

    async def version(self, name, latest):
        return await _aos_value("version", name, latest)

    async def removed(self, name, kind):
        return await _aos_value("removed", name, kind)

    async def checkpoint(self, name):
        return await _aos_value("checkpoint", name)

    async def rollback_to(self, name, checkpoint):
        return await _aos_value("rollback_to", name, checkpoint)

    async def commit(self, name):
        return await _aos_value("commit", name)

    def publish(self, view):
        _aos_op("publish", view)

    def log(self, text):
        _aos_op("log", text)

    def annotate(self, annotation):
        _aos_op("annotate", annotation)


_aos_Cx = Cx

_aos_NAMES = {
    "Break": Break,
    "Canceled": Canceled,
    "Continue": Continue,
    "Critical": Critical,
    "Cx": Cx,
    "Exhausted": Exhausted,
    "FlowError": FlowError,
    "JoinFailed": JoinFailed,
    "Local": Local,
    "Nat": Nat,
    "RaceFailed": RaceFailed,
    "Retry": Retry,
    "Rollback": Rollback,
    "Timeout": Timeout,
    "by": by,
    "effect": effect,
    "flow": flow,
    "other_flow": other_flow,
    "schema": schema,
}

_aos_package = type("aos", (), {"flow": type("aos.flow", (), _aos_NAMES)})
_aos_register("package", "aos", _aos_package)


async def _aos_main(function):
    # Without `except`: the module handles the failure of the flow.
    value = await function(_aos_Cx(), _aos_op("input")[1])
    _aos_op("ended", 0, value)
