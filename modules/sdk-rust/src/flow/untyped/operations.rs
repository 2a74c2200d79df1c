//! The operations that a program requests.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::{Future, pending, poll_fn};
use core::pin::Pin;
use core::task::{Context as Task, Poll};

use crate::cbor;
use crate::flow::child::{Child, field_of};
use crate::flow::ending::Ending;
use crate::flow::engine::{Core, Print};
use crate::flow::history::{Bytes, Kind, Outcome};
use crate::flow::parallel::Parallel;
use crate::flow::repeat::{self, Retention};
use crate::flow::scope::{leaf, open, within};
use crate::flow::step::{Policy, StepCore};
use crate::flow::wait;
use crate::flow::{Cx, FlowError};
use crate::schema::encode;
use crate::types::Time;

use super::machine::{Asked, Machine, NULL};
use super::program::{
    Answer, Call, Deadline, Ended, Id, Listen, Loop, Program, Request, Spawn, Step,
};

/// Run a program as the body that awaits this, from its start to its end.
pub async fn drive(
    cx: Cx,
    program: impl Program + 'static,
    input: Bytes,
) -> Result<Vec<u8>, FlowError> {
    let machine = Machine::new(cx, Box::new(program));
    machine.start(input);
    let ended = body(machine, 0).await;
    result(machine, ended).await
}

/// Drive a body until it ends. Its last request stays unanswered.
fn body(machine: &'static Machine, id: Id) -> Pin<Box<dyn Future<Output = Ended>>> {
    Box::pin(async move {
        loop {
            match machine.request().await {
                Request::End { body, ended } if body == id => return ended,
                Request::End { .. } => {
                    machine.refuse("the program ended another body than the one that runs");
                    pending().await
                }
                request => operation(machine, request).await,
            }
        }
    })
}

/// The result of a body that is no iteration.
async fn result(machine: &Machine, ended: Ended) -> Result<Vec<u8>, FlowError> {
    match ended {
        Ended::Value(value) => Ok(value),
        Ended::Failed(error) => Err(error),
        Ended::Continue(_) => {
            machine.refuse("the program continued a body that is no iteration of a loop");
            pending().await
        }
    }
}

/// Await an operation. In a poll that does not end it, the program gets a number to wait for.
async fn operation(machine: &'static Machine, request: Request) {
    let asked = Asked::default();
    let mut run = core::pin::pin!(operate(machine, request, &asked));
    poll_fn(|task| {
        let polled = run.as_mut().poll(task);
        if polled.is_pending() {
            machine.wait_if_unanswered(&asked);
        }
        polled
    })
    .await
}

async fn operate(machine: &'static Machine, request: Request, asked: &Asked) {
    let cx = machine.cx;
    let unit = match request {
        Request::Step(step) => return run_step(machine, step, asked).await,
        Request::Call(call) => return run_call(machine, call, asked).await,
        Request::Local { name } => return run_local(machine, &name, asked).await,
        Request::Join { name, branches, at_most } => {
            let parallel = Parallel::new(cx, Kind::Join, &name, Vec::new());
            let at_most = at_most.unwrap_or(usize::MAX);
            let parallel = Parallel { names: branches, at_most, ..parallel };
            return Branching::new(machine, parallel, asked).run().await;
        }
        Request::Race { name, branches, rollback_losers } => {
            let parallel = Parallel::new(cx, Kind::Race, &name, Vec::new());
            let unwinds_losers = rollback_losers;
            let parallel = Parallel { names: branches, unwinds_losers, ..parallel };
            return Branching::new(machine, parallel, asked).run().await;
        }
        Request::Scope { name } => return run_scope(machine, &name, asked).await,
        Request::Loop(of) => return run_loop(machine, of, asked).await,
        Request::Listen(listen) => {
            let ended = run_listen(cx, &listen).await;
            return finish_leaf(machine, asked, ended);
        }
        Request::Version { name, latest } => {
            let version = cx.version(&name, latest).await.map(|version| encode(&version));
            return asked.reply(machine, 0, Answer::Done(version.map(|value| &*value.leak())));
        }
        Request::Emit { name, schema, value } => {
            let ended = leaf(cx, Kind::Emit, &name, Print::Text(schema), |core, index| {
                core.emit_once(index, schema, &value);
            });
            return finish_leaf(machine, asked, ended.await);
        }
        Request::Spawn(spawn) => {
            let ended = run_spawn(cx, &spawn).await;
            return finish_leaf(machine, asked, ended);
        }
        Request::Sleep { name, end: Deadline::After(duration) } => cx.sleep(&name, duration).await,
        Request::Sleep { name, end: Deadline::At(time) } => cx.sleep_until(&name, time).await,
        Request::Checkpoint { name } => cx.checkpoint(&name).await,
        Request::RollbackTo { name, checkpoint } => cx.rollback_to(&name, &checkpoint).await,
        Request::Commit { name } => cx.commit(&name).await,
        Request::Removed { name, kind } => cx.removed(&name, kind).await,
        Request::Random { .. } | Request::Uuid | Request::Computed(_) => {
            machine.refuse("the program is not in the computation of a local");
            pending().await
        }
        Request::Compensation(_) => {
            machine.refuse("the program was not asked for a compensation");
            pending().await
        }
        // The machine and the body handle these.
        Request::Publish(_) | Request::Annotate(_) | Request::Log(_) | Request::End { .. } => {
            pending().await
        }
    };
    asked.reply(machine, 0, Answer::Done(unit.map(|()| NULL)));
}

fn finish_leaf(machine: &Machine, asked: &Asked, ended: Result<(usize, Bytes), FlowError>) {
    match ended {
        Ok((index, value)) => asked.reply(machine, index, Answer::Done(Ok(value))),
        Err(error) => asked.reply(machine, 0, Answer::Done(Err(error))),
    }
}

// Steps and calls.

async fn run_step(machine: &'static Machine, step: Step, asked: &Asked) {
    let Step { name, effect, params, timeout, has_rollback, rollback_unknown, .. } = step;
    let policy = Policy { retry: step.retry, retries_timeouts: step.retry_timeouts };
    let mut core = StepCore { cx: machine.cx, name, slot: 0, policy, timeout };
    let params = || params.clone();
    let unknown = || rollback_unknown.as_ref().map(|undo| (undo.effect, undo.params.clone()));
    let (index, ended) = poll_fn(|_| match core.poll(effect, &params, &unknown, has_rollback) {
        Some(ended) => Poll::Ready(ended),
        None => Poll::Pending,
    })
    .await;
    finish_undoable(machine, asked, index, ended, has_rollback);
}

async fn run_call(machine: &'static Machine, call: Call, asked: &Asked) {
    let Call { name, workflow, control, has_rollback, .. } = call;
    let input: Bytes = call.input.leak();
    let begin = |core: &mut Core, index: usize| {
        let ending = Some(Ending::of(has_rollback));
        let child = Child { workflow, control, key: field_of(input, call.key_field), ending };
        core.begin_call(index, call.call, child, input);
    };
    let mut slot = 0;
    let (index, ended) = poll_fn(|_| {
        let polled =
            machine.with(|core| core.poll_call(&mut slot, &name, workflow, has_rollback, &begin));
        match polled {
            Some(ended) => Poll::Ready(ended),
            None => Poll::Pending,
        }
    })
    .await;
    finish_undoable(machine, asked, index, ended, has_rollback);
}

/// Answer with the end of a step or call. If its result is new, the program makes the compensation
/// first.
fn finish_undoable(
    machine: &Machine,
    asked: &Asked,
    index: usize,
    ended: Result<Bytes, FlowError>,
    has_rollback: bool,
) {
    let value = match ended {
        Ok(value) if has_rollback && machine.with(|core| core.op(index).is_fresh) => value,
        ended => return asked.reply(machine, index, Answer::Done(ended)),
    };
    asked.reply(machine, index, Answer::Compensate(value));
    match machine.request_now() {
        Some(Request::Compensation(undo)) => machine.with(|core| {
            let path = core.path(index);
            core.register(&path, undo.effect, undo.params);
        }),
        _ => return machine.refuse("the program made no compensation, which it was asked for"),
    }
    machine.answer(index, Answer::Done(Ok(value)));
}

async fn run_spawn(cx: Cx, spawn: &Spawn) -> Result<(usize, Bytes), FlowError> {
    let print = Print::Text(spawn.workflow);
    leaf(cx, Kind::Spawn, &spawn.name, print, |core, index| {
        let mut extra = Vec::new();
        cbor::write_text(spawn.workflow, &mut extra);
        core.op_mut(index).set_extra(1, extra);
        core.emit(spawn.schema, &spawn.input);
        core.complete(index, Vec::from(NULL));
    })
    .await
}

// Values and messages.

async fn run_local(machine: &'static Machine, name: &str, asked: &Asked) {
    let mut slot = 0;
    let index = poll_fn(|_| {
        match machine.with(|core| core.enter(&mut slot, Kind::Local, name, Print::None)) {
            Some(index) => Poll::Ready(index),
            None => Poll::Pending,
        }
    })
    .await;
    if !machine.with(|core| core.op(index).state.is_open()) {
        let ended = machine.with(|core| core.result(index));
        return asked.reply(machine, index, Answer::Done(ended));
    }
    let now = Time::from_ns(machine.with(|core| core.now) as i64);
    asked.reply(machine, index, Answer::Compute { now });
    loop {
        let value = match machine.request_now() {
            Some(Request::Random { below: Some(0) }) => {
                return machine
                    .refuse("a random number below 0 was requested: a bound is 1 or more");
            }
            Some(Request::Random { below: Some(bound) }) => {
                encode(&machine.with(|core| core.random.below(bound)))
            }
            Some(Request::Random { below: None }) => {
                encode(&machine.with(|core| core.random.number()))
            }
            Some(Request::Uuid) => encode(&machine.with(|core| core.random.uuid())),
            Some(Request::Computed(computed)) => {
                machine.with(|core| match computed {
                    Ok(value) => core.complete(index, value),
                    Err(error) => core.fail(index, error),
                });
                let ended = machine.with(|core| core.result(index));
                return machine.answer(index, Answer::Done(ended));
            }
            _ => return machine.refuse("a local computes a value, and awaits no operation"),
        };
        machine.answer(index, Answer::Done(Ok(value.leak())));
    }
}

async fn run_listen(cx: Cx, listen: &Listen) -> Result<(usize, Bytes), FlowError> {
    let until = match listen.deadline {
        None => wait::Until::Ever,
        Some(Deadline::After(duration)) => wait::Until::After(duration),
        Some(Deadline::At(time)) => wait::Until::At(time),
    };
    let schemas: Vec<&'static str> = listen.schemas.iter().map(|(schema, _)| *schema).collect();
    leaf(cx, Kind::Listen, &listen.name, Print::Texts(&schemas), |core, index| {
        core.run_listen(index, &listen.schemas, listen.most, until)
    })
    .await
}

// Operations with bodies.

async fn run_scope(machine: &'static Machine, name: &str, asked: &Asked) {
    let index = match open(machine.cx, Kind::Scope, name).await {
        Ok(index) => index,
        Err((index, ended)) => return asked.reply(machine, index, Answer::Done(ended)),
    };
    let id = machine.number();
    asked.reply(machine, index, Answer::Run { body: id, state: NULL });
    let ended = within(machine.cx, index, index, body(machine, id)).await;
    let ended = result(machine, ended).await;
    let ended = machine.with(|core| {
        core.collapse(index, ended);
        core.result(index)
    });
    asked.reply(machine, index, Answer::Done(ended));
}

async fn run_loop(machine: &'static Machine, of: Loop, asked: &Asked) {
    let Loop { name, state: first, commit_interval, history_every, history_keep } = of;
    let history = Retention { commit: commit_interval, every: history_every, keep: history_keep };
    let index = match open(machine.cx, Kind::Loop, &name).await {
        Ok(index) => index,
        Err((index, ended)) => return asked.reply(machine, index, Answer::Done(ended)),
    };
    machine.with(|core| core.begin_loop(index, history, &|| first.clone()));
    while machine.with(|core| core.op(index).state.is_open()) {
        let (iteration, state) = poll_fn(|_| {
            machine.with(|core| match core.iteration(index) {
                Some(next) => Poll::Ready(next),
                None => {
                    core.wait(index);
                    Poll::Pending
                }
            })
        })
        .await;
        let id = machine.number();
        asked.reply(machine, index, Answer::Run { body: id, state });
        let ended = match within(machine.cx, index, iteration, body(machine, id)).await {
            Ended::Value(value) => Ok(repeat::Loop::Break(value)),
            Ended::Continue(state) => Ok(repeat::Loop::Continue(state)),
            Ended::Failed(error) => Err(error),
        };
        machine.with(|core| core.end_iteration(index, iteration, history, ended));
    }
    let ended = machine.with(|core| core.result(index));
    asked.reply(machine, index, Answer::Done(ended));
}

/// A join or race of a program.
struct Branching<'a> {
    machine: &'static Machine,
    parallel: Parallel<'static>,
    asked: &'a Asked,
    is_told: bool,
}

impl<'a> Branching<'a> {
    fn new(
        machine: &'static Machine,
        parallel: Parallel<'static>,
        asked: &'a Asked,
    ) -> Branching<'a> {
        Branching { machine, parallel, asked, is_told: false }
    }

    async fn run(mut self) {
        let (index, ended) = poll_fn(|task| match self.poll(task) {
            Some(ended) => Poll::Ready(ended),
            None => Poll::Pending,
        })
        .await;
        self.asked.reply(self.machine, index, Answer::Done(ended));
    }

    /// As that of the typed ones, but the program gets the branches before the first is polled.
    fn poll(&mut self, task: &mut Task<'_>) -> Option<(usize, Result<Bytes, FlowError>)> {
        let machine = self.machine;
        let Parallel { kind, name, names, slot, at_most, .. } = &mut self.parallel;
        let is_first = *slot == 0;
        let print = Print::Branches(names);
        let index = machine.with(|core| core.enter(slot, *kind, name, print))?;
        if is_first {
            machine.with(|core| core.begin_parallel(index, names, *at_most));
            self.parallel.branches = machine.with(|core| core.children(index));
            self.check_values();
        }
        let is_open = |core: &mut Core| core.fault.is_none() && core.op(index).state.is_open();
        if machine.with(is_open) {
            self.tell(index);
            self.parallel.poll_branches(index, task);
        }
        machine.with(|core| {
            if core.fault.is_some() {
                return None;
            }
            if core.op(index).state.is_open() {
                core.wait(index);
                return None;
            }
            Some((index, core.result(index)))
        })
    }

    fn tell(&mut self, index: usize) {
        if self.is_told {
            return;
        }
        self.is_told = true;
        let machine = self.machine;
        let bodies: Vec<Id> = self.parallel.names.iter().map(|_| machine.number()).collect();
        let run =
            |id: &Id| Some(Box::pin(branch(machine, *id)) as Pin<Box<dyn Future<Output = _>>>);
        self.parallel.bodies = bodies.iter().map(run).collect();
        let wait = machine.number();
        machine.with(|core| core.wait(index));
        self.asked.reply(machine, index, Answer::Branches { wait, bodies });
        self.asked.wait.set(Some(wait));
        machine.hold();
    }

    /// In a turn that reads ahead, the program reads the values that it needs later (FL-66).
    fn check_values(&self) {
        if !self.machine.with(|core| core.reads_ahead) {
            return;
        }
        for branch in &self.parallel.branches {
            let (name, outcome) = self.machine.with(|core| {
                let op = core.op(*branch);
                (op.name, op.outcome)
            });
            let Outcome::Value(value) = outcome else { continue };
            if let Err(words) = self.machine.check(name, value) {
                self.machine.with(|core| {
                    let path = core.path(*branch);
                    core.diverge::<()>(&path, "a value of another type", &words)
                });
            }
        }
    }
}

/// The body of a branch.
async fn branch(machine: &'static Machine, id: Id) -> Result<Vec<u8>, FlowError> {
    machine.resume(id, 0, Answer::Run { body: id, state: NULL });
    let ended = body(machine, id).await;
    machine.answer(0, Answer::Done(Ok(NULL)));
    if machine.request_now().is_some() {
        machine.refuse("the program requested something behind the end of a branch");
    }
    result(machine, ended).await
}
