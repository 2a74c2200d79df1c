//! One turn of a flow: a step of the kernel (`spec/flow.md`, FL-1 to FL-9).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::TypeId;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context as Task, Poll, Waker};

use crate::air::Type;
use crate::context::time_and_entropy;
use crate::fault::Fault;
use crate::number::decimal;
use crate::schema::{Named, Schema, decode, encode};
use crate::step::{Input, Output, Reducer};

use super::engine::{CONTINUE, Core, Engine, Facts};
use super::failure::{Failure, FlowError, failure};
use super::history::{Bytes, History, Kind, State};
use super::inbox::Inbox;
use super::mail::{Answer, Mail};
use super::path::read_reference;
use super::refs;
use super::state::{Parent, Schemas, Status, Stored};
use super::unwind::SUFFIX;
use super::{Cx, Flow};

/// A [`Flow`] as a [`Reducer`]: `aos_sdk::export!(order: aos_sdk::flow::Turn<Order>);`
pub struct Turn<F: Flow>(PhantomData<F>);

impl<F: Flow> Turn<F> {
    const FACTS: Facts = Facts {
        control: F::CONTROL,
        returned: F::RETURN,
        listens: F::LISTENS,
        effects_max: F::EFFECTS_LIMIT as usize,
        events_max: F::EVENTS_LIMIT as usize,
        input: F::Input::NAME,
        output: F::OUTPUT,
        view: F::VIEW,
    };

    /// Only a flow whose values name blobs has the code that finds them.
    const FIND_REFS: Option<fn(&Stored) -> Vec<u8>> = {
        let has_hash = refs::has_hash(&F::Input::TYPE)
            || refs::has_hash(&F::Output::TYPE)
            || refs::has_hash(&F::View::TYPE);
        if has_hash { Some(Self::find_refs) } else { None }
    };

    fn find_refs(stored: &Stored) -> Vec<u8> {
        const fn pair<'a>(of: &'a Type, bytes: Option<Bytes>) -> (&'a Type, Option<Bytes>) {
            (of, bytes)
        }
        refs::find(&[
            pair(&F::Input::TYPE, stored.input),
            pair(&F::Output::TYPE, stored.output),
            pair(&F::View::TYPE, stored.view),
        ])
    }
}

impl<F: Flow> Reducer for Turn<F>
where
    F::View: 'static,
{
    fn reduce(input: &Input<'_>, output: &mut Output) -> Result<(), Fault> {
        let mut turn = Began::begin(&Self::FACTS, input, TypeId::of::<F::View>())?;
        if let Some(start) = turn.program() {
            match decode::<F::Input>(start) {
                Ok(start) => {
                    let run = F::run(Cx(turn.engine), start);
                    let run = async move { run.await.map(|value| encode(&value)) };
                    turn.poll(Box::pin(run));
                }
                Err(misfit) => turn.engine.with(|core| {
                    core.diverge::<()>("", "a start of another type", &misfit.words());
                }),
            }
        }
        turn.finish(output, Self::FIND_REFS)
    }
}

/// The work of a turn, after its mail is folded.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    /// The state stays as it is, byte for byte.
    Nothing,
    /// The mail is stored, and no more.
    Store,
    /// The program is polled.
    Poll,
    /// The program is over, and its compensations run.
    Unwind,
    /// As `Unwind`, but first the program is polled once more and begins nothing, so that it
    /// registers the compensation of a result that came after the end.
    Drain,
}

pub(super) struct Began {
    pub engine: &'static Engine,
    /// None for a cell that does not exist.
    before: Option<(Bytes, Status)>,
    stored: Stored,
    work: Work,
}

/// The failure of a flow that was canceled, which tells it from one that failed.
fn canceled() -> FlowError {
    FlowError::Canceled(failure("cancel", "the flow was canceled"))
}

fn is_canceled(error: &FlowError) -> bool {
    matches!(error, FlowError::Canceled(Failure { code, path, .. }) if code == "cancel" && path.is_empty())
}

impl Began {
    /// Read the state, and fold the mail into it.
    pub fn begin(facts: &'static Facts, input: &Input<'_>, view: TypeId) -> Result<Began, Fault> {
        let (now, entropy) = time_and_entropy(input)?;
        let key = input.key.unwrap_or(b"\xf6").to_vec().leak();
        let mut core = Core::new(facts, key, now, entropy);
        let state: Option<Bytes> = input.state.map(|state| &*state.to_vec().leak());
        let schemas = Schemas { input: facts.input, output: facts.output, view: facts.view };
        let mut stored = match state {
            Some(state) => Stored::read(state).map_err(|misfit| Fault::input("state", misfit))?,
            None => Stored::new(schemas),
        };
        core.history = match state {
            Some(_) => History::read(stored.ops).map_err(unreadable)?,
            None => History::default(),
        };
        core.inbox = Inbox::read(stored.inbox).ok_or_else(unreadable_inbox)?;
        core.started = stored.started;
        let before = state.map(|state| (state, stored.status));
        let event: Bytes = input.event.to_vec().leak();
        let mail = Mail::read(facts, event)?;
        let work = fold(&mut core, &mut stored, mail)?;
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(core, view)));
        Ok(Began { engine, before, stored, work })
    }

    /// The input of the program, if it has to be polled.
    pub fn program(&self) -> Option<Bytes> {
        self.stored.input.filter(|_| matches!(self.work, Work::Poll | Work::Drain))
    }

    /// Poll the program until a pass changes nothing.
    fn poll(&mut self, mut run: Pin<Box<dyn Future<Output = Result<Vec<u8>, FlowError>> + '_>>) {
        let mut task = Task::from_waker(Waker::noop());
        let is_over = self.work == Work::Drain;
        self.engine.with(|core| core.is_draining = is_over);
        loop {
            self.engine.with(|core| {
                core.has_progressed = false;
                core.is_blocked = false;
            });
            let polled = run.as_mut().poll(&mut task);
            let goes_on = self.engine.with(|core| {
                if polled.is_ready() {
                    core.leave_body(0);
                } else {
                    core.pend_body(0);
                }
                core.fault.is_none() && core.has_progressed
            });
            match polled {
                Poll::Ready(ended) if !is_over => return self.end(ended),
                Poll::Pending if goes_on => {}
                _ => return,
            }
        }
    }

    fn end(&mut self, ended: Result<Vec<u8>, FlowError>) {
        match ended {
            Ok(value) => {
                self.stored.output = Some(value.leak());
                self.engine.with(|core| core.history = History::default());
            }
            Err(error) => {
                self.stored.error = Some(error.bytes().leak());
                self.work = Work::Unwind;
            }
        }
    }

    /// Write the result of the turn.
    pub fn finish(
        mut self,
        output: &mut Output,
        find_refs: Option<fn(&Stored) -> Vec<u8>>,
    ) -> Result<(), Fault> {
        if matches!(self.work, Work::Unwind | Work::Drain) {
            self.unwind();
        }
        let (fault, made) =
            self.engine.with(|core| (core.fault.take(), core::mem::take(&mut core.output)));
        if let Some(fault) = fault {
            return Err(fault);
        }
        *output = made;
        if self.work == Work::Nothing {
            output.state = self.before.map(|(state, _)| state.to_vec());
            return Ok(());
        }
        let status = self.status();
        self.tell(status, output);
        self.store(status, output, find_refs);
        Ok(())
    }

    /// Cancel what is open, then run compensations.
    fn unwind(&mut self) {
        let engine = self.engine;
        engine.with(|core| {
            core.is_draining = false;
            let children = core.children(0);
            if !children.into_iter().fold(true, |is_over, index| core.close(index) && is_over) {
                return;
            }
            core.drop_children(0);
            core.inbox.clear();
            core.unwind_all();
        });
    }

    fn status(&self) -> Status {
        if self.stored.output.is_some() {
            return Status::Completed;
        }
        if self.stored.input.is_none() {
            return Status::Pending;
        }
        let error = self.stored.error.map(super::engine::read_failure);
        self.engine.with(|core| {
            let is_over = error.is_some() && core.op(0).first_child == 0 && core.undos_are_over();
            match error {
                Some(error) if is_over && is_canceled(&error) => Status::Cancelled,
                Some(_) if is_over => Status::Failed,
                _ if core.is_stuck() => Status::Stuck,
                Some(_) => Status::RollingBack,
                None => core.waits(),
            }
        })
    }

    /// The events that the turn as a whole makes.
    fn tell(&mut self, status: Status, output: &mut Output) {
        let engine = self.engine;
        let parent = self.stored.parent;
        engine.with(|core| {
            core::mem::swap(&mut core.output, output);
            core.continue_later(status.has_ended());
            if let (Some(parent), true) = (parent, status.has_ended()) {
                match (self.stored.output, self.stored.error) {
                    (Some(value), _) => core.answer(&parent, Ok(value)),
                    (None, error) => core.answer(&parent, Err(error.unwrap_or(b""))),
                }
            }
            core::mem::swap(&mut core.output, output);
            if crate::log::IS_ON && !core.lines.is_empty() && core.annotation.is_none() {
                output.annotation = Some(crate::log::annotation(core::mem::take(&mut core.lines)));
            } else {
                output.annotation = core.annotation.take();
            }
        });
    }

    fn store(
        mut self,
        status: Status,
        output: &mut Output,
        find_refs: Option<fn(&Stored) -> Vec<u8>>,
    ) {
        let engine = self.engine;
        let stored = &mut self.stored;
        engine.with(|core| {
            if status.has_ended() {
                core.inbox.clear();
            }
            stored.ops = core.history.bytes(stored.ops.len() + 256).leak();
            stored.inbox = core.inbox.bytes();
            stored.started = core.started;
            if let Some(view) = core.view.take() {
                stored.view = Some(view.leak());
                stored.schemas.view = core.facts.view;
            }
            if stored.output.is_some() {
                stored.schemas.output = core.facts.output;
            }
        });
        stored.status = status;
        if let Some(find) = find_refs {
            stored.refs = find(stored).leak();
        }
        let declared = status.declared();
        if self.before.map(|(_, before)| before.declared()) != Some(declared) {
            output.status = Some(declared);
        }
        output.state = Some(stored.bytes());
    }
}

fn unreadable(offset: usize) -> Fault {
    let mut message = String::from("ops cannot be read as a history of format 1, at byte ");
    decimal(offset as u64, &mut message);
    Fault::new("flow_history", message)
}

fn unreadable_inbox() -> Fault {
    Fault::new("flow_history", "inbox cannot be read as a list of messages")
}

fn fold(core: &mut Core, stored: &mut Stored, mail: Mail) -> Result<Work, Fault> {
    let is_over = stored.error.is_some();
    let goes_on = if is_over { Work::Unwind } else { Work::Poll };
    let if_any = |is_any: bool| if is_any { goes_on } else { Work::Nothing };
    Ok(match mail {
        Mail::Start(input) if stored.status == Status::Pending => start(core, stored, input, None),
        Mail::Start(_) | Mail::Nothing => Work::Nothing,
        Mail::Call(input, parent) => return call(core, stored, input, parent),
        Mail::Message(..) if is_over || stored.status.has_ended() => Work::Nothing,
        Mail::Message(schema, value) => {
            core.inbox.receive(schema, value);
            if stored.status == Status::Pending { Work::Store } else { Work::Poll }
        }
        _ if stored.status == Status::Pending || stored.status.has_ended() => Work::Nothing,
        Mail::Continue => {
            core.reads_ahead = true;
            if is_over && core.op(0).first_child != 0 { Work::Drain } else { goes_on }
        }
        Mail::Resume { skip } => {
            let is_stuck = core.is_stuck();
            core.resume(skip);
            if_any(is_stuck)
        }
        // A flow obeys an operator and the call that started it, and no other one.
        Mail::Cancel { parent, .. } if parent.is_some() && parent != stored.parent => Work::Nothing,
        Mail::Cancel { rollback, .. } => cancel(core, stored, rollback),
        Mail::Return(returned) => match core.settle_call(&returned) {
            true if is_over && core.has_late_result => Work::Drain,
            is_any => if_any(is_any),
        },
        Mail::Answer(reference, answer) => match core.settle(reference, answer) {
            true if is_over && core.has_late_result => Work::Drain,
            is_any => if_any(is_any),
        },
    })
}

fn start(core: &mut Core, stored: &mut Stored, input: Bytes, parent: Option<Parent>) -> Work {
    stored.input = Some(input);
    stored.parent = parent;
    core.started = core.now;
    core.op_mut(0).is_new = true;
    Work::Poll
}

fn call(core: &mut Core, stored: &mut Stored, input: Bytes, parent: Parent) -> Result<Work, Fault> {
    if !super::path::is_schema_name(parent.schema) {
        let words = "the reply of a call names no schema: expected `namespace/Name@1`";
        return Err(Fault::new("flow_name", words));
    }
    if stored.status == Status::Pending {
        return Ok(start(core, stored, input, Some(parent)));
    }
    let exists = failure("exists", "a flow with this key has already been started");
    core.answer(&parent, Err(&FlowError::Critical(exists).bytes()));
    Ok(Work::Nothing)
}

/// Cancel the flow. It asks the program nothing.
fn cancel(core: &mut Core, stored: &mut Stored, rollback: bool) -> Work {
    if stored.error.is_some() && rollback {
        return Work::Nothing;
    }
    if stored.error.is_none() {
        stored.error = Some(canceled().bytes().leak());
        // Stuck compensations get new attempts, in their order.
        core.resume(false);
    }
    if !rollback {
        core.skip_undos();
    }
    Work::Unwind
}

impl Core {
    pub(super) fn unreadable_inbox(&mut self) {
        self.fault.get_or_insert_with(unreadable_inbox);
    }

    /// The open operation at a path.
    pub(super) fn find(&self, path: &str) -> Option<usize> {
        let mut at = 0;
        for part in path.as_bytes().split(|byte| *byte == b'/') {
            let is_part = |child: &&usize| {
                let op = self.op(**child);
                super::path::is_part(part, op.name, op.kind == Kind::Iteration)
            };
            at = *self.children(at).iter().find(is_part)?;
        }
        Some(at)
    }

    /// Fold the answer to an effect or timer. False if it fits nothing that is open.
    fn settle(&mut self, reference: &str, answer: Answer) -> bool {
        let Some((path, attempt, role)) = read_reference(reference) else { return false };
        if role == CONTINUE {
            return self.wake();
        }
        if let Some(path) = path.strip_suffix(SUFFIX) {
            return self.settle_undo(path, attempt, role, answer);
        }
        let Some(index) = self.find(path) else { return false };
        let op = self.op(index);
        if !op.state.is_open() {
            return false;
        }
        let is_current = op.attempts == attempt;
        match (op.kind, role, op.state) {
            (Kind::Step, "", State::Running) if is_current => self.settle_step(index, answer),
            (Kind::Step, "retry", State::Pending) if is_current => self.wake_step(index),
            (Kind::Step, "timeout", _) => self.time_out_step(index),
            (Kind::Step, "cancel", State::Running) if is_current => {
                return self.settle_cancel(index);
            }
            (Kind::Sleep, "sleep", State::Running) => self.complete(index, Vec::from(b"\xf6")),
            (Kind::Listen, "listen", State::Running) => self.end_listen(index),
            _ => return false,
        }
        true
    }

    fn undos_are_over(&self) -> bool {
        use super::history::Undo;
        let is_over = |undo: Undo| matches!(undo, Undo::Done | Undo::Skipped);
        self.history.compensations.iter().all(|undo| is_over(undo.state))
    }

    /// The status of a flow whose program is not over.
    fn waits(&self) -> Status {
        use super::history::Undo;
        let undos = &self.history.compensations;
        let mut is_unwinding = undos.iter().any(|undo| undo.state == Undo::Running);
        let (mut is_sleeping, mut is_busy) = (false, self.is_held);
        for op in self.history.ops.iter().skip(1) {
            if op.is_gone || !op.state.is_open() {
                continue;
            }
            match op.kind {
                Kind::Step | Kind::Call => is_busy = true,
                Kind::RollbackTo => is_unwinding = true,
                Kind::Sleep | Kind::Listen => is_sleeping = true,
                _ => {}
            }
        }
        match (is_unwinding, is_busy, is_sleeping) {
            (true, ..) => Status::RollingBack,
            (false, false, true) => Status::Sleeping,
            _ => Status::Running,
        }
    }
}

#[cfg(feature = "untyped")]
impl Began {
    /// The state stays as it is, byte for byte.
    pub fn changes_nothing(&self) -> bool {
        self.work == Work::Nothing
    }

    /// Poll a body that no macro has made.
    pub fn poll_untyped(&mut self, run: impl Future<Output = Result<Vec<u8>, FlowError>>) {
        self.poll(Box::pin(run));
    }
}
