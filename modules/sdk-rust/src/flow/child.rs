//! `call` and `spawn`: flows that a flow starts.

use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context as Task, Poll};

use crate::Effect;
use crate::cbor::{self, Reader, Stop};
use crate::schema::{Named, encode, whole};

use super::ending::{Ending, Rollback, ready, rollback};
use super::engine::{Core, Print, Slot};
use super::failure::{FlowError, failure};
use super::history::{Bytes, Kind, Outcome, State, put};
use super::mail::Return;
use super::scope::leaf;
use super::state::Parent;
use super::{Callable, Cx, Flow};

/// A call of another flow: [`Cx::call`].
#[must_use = "nothing is called before `.await`"]
pub struct Call<'a, C: Callable> {
    cx: Cx,
    name: String,
    slot: Slot,
    input: C::Input,
    rollback: Option<Rollback<'a, C::Output>>,
}

// Nothing of it is ever pinned.
impl<C: Callable> Unpin for Call<'_, C> {}

impl<'a, C: Callable> Call<'a, C> {
    /// Once the called flow has completed, register the effect that undoes it, as
    /// [`Step::rollback`](super::Step::rollback) does. A call with it that is canceled waits until the
    /// called flow has ended, which may have completed before the cancel reached it.
    pub fn rollback<U: Effect>(mut self, undo: impl Fn(&C::Output) -> U + Sync + 'a) -> Self {
        self.rollback = rollback(undo);
        self
    }
}

impl<C: Callable> Future for Call<'_, C> {
    type Output = Result<C::Output, FlowError>;

    fn poll(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<Self::Output> {
        let me = self.get_mut();
        let ending = Ending::of(me.rollback.is_some());
        let begin = |core: &mut Core, index: usize| {
            let input: Bytes = encode(&me.input).leak();
            let key = field_of(input, C::KEY_FIELD);
            let child =
                Child { workflow: C::WORKFLOW, control: C::CONTROL, key, ending: Some(ending) };
            core.begin_call(index, C::CALL, child, input);
        };
        let polled = me.cx.engine().with(|core| {
            core.poll_call(&mut me.slot, &me.name, C::WORKFLOW, me.rollback.is_some(), &begin)
        });
        match polled {
            Some((index, ended)) => ready(me.cx, index, ended, &mut me.rollback),
            None => Poll::Pending,
        }
    }
}

impl Cx {
    /// Run another flow and wait for its result. Its cell must not exist: a key that is in use is
    /// Critical, code `exists`.
    ///
    /// If this flow is canceled or rolled back, or the branch loses, a child that is still running
    /// is canceled, with its compensations. A failure of the child has it among its causes.
    pub fn call<'a, C: Callable>(self, name: &str, input: C::Input) -> Call<'a, C> {
        Call { cx: self, name: String::from(name), slot: 0, input, rollback: None }
    }

    /// Start another flow without waiting for its result. If its cell has already started, nothing happens.
    pub async fn spawn<C: Flow>(self, name: &str, input: C::Input) -> Result<(), FlowError> {
        leaf(self, Kind::Spawn, name, Print::Text(C::WORKFLOW), |core, index| {
            let mut extra = Vec::new();
            cbor::write_text(C::WORKFLOW, &mut extra);
            core.op_mut(index).set_extra(1, extra);
            core.emit(C::Input::NAME, &encode(&input));
            core.complete(index, Vec::from(b"\xf6"));
        })
        .await?;
        Ok(())
    }
}

/// The body of a call: `[outcome, workflow, control, key, ending]`.
pub(super) struct Child {
    pub workflow: &'static str,
    /// The schema by which it is canceled.
    pub control: &'static str,
    pub key: Bytes,
    /// None in a call of an earlier engine, whose child may not know by whom it was called (FL-73).
    pub ending: Option<Ending>,
}

impl Child {
    fn of(core: &Core, index: usize) -> Option<Child> {
        let op = core.op(index);
        whole(op.extra, |from| Child::read(from, op.extras)).ok()
    }

    fn read(from: &mut Reader<'static>, items: usize) -> Result<Child, Stop> {
        let (workflow, control, key) = (from.text()?, from.text()?, from.bytes()?);
        let ending = if items > 3 { Some(Ending::read(from)?) } else { None };
        Ok(Child { workflow, control, key, ending })
    }

    fn store(&self, core: &mut Core, index: usize) {
        let mut extra = Vec::new();
        cbor::write_text(self.workflow, &mut extra);
        cbor::write_text(self.control, &mut extra);
        cbor::write_bytes(self.key, &mut extra);
        if let Some(ending) = self.ending {
            cbor::write_nat(ending as u64, &mut extra);
        }
        core.op_mut(index).set_extra(3 + self.ending.is_some() as usize, extra);
    }
}

impl Core {
    /// The operation and its end, or None for pending.
    pub fn poll_call(
        &mut self,
        slot: &mut Slot,
        name: &str,
        workflow: &str,
        has_rollback: bool,
        begin: &dyn Fn(&mut Core, usize),
    ) -> Option<(usize, Result<Bytes, FlowError>)> {
        let index = self.enter(slot, Kind::Call, name, Print::Text(workflow))?;
        if self.op(index).state == State::Pending {
            begin(self, index);
        }
        if self.fault.is_some() {
            return None;
        }
        if self.op(index).state.is_open() {
            if let Some(ending) = Child::of(self, index).and_then(|child| child.ending) {
                self.set_call_ending(index, ending.with(has_rollback));
            }
            self.wait(index);
            return None;
        }
        Some((index, self.result(index)))
    }

    pub(super) fn set_call_ending(&mut self, index: usize, ending: Ending) {
        let Some(mut child) = Child::of(self, index) else { return };
        if child.ending.is_some_and(|other| other != ending) {
            child.ending = Some(ending);
            child.store(self, index);
        }
    }

    pub fn begin_call(&mut self, index: usize, schema: &str, child: Child, input: &[u8]) {
        let (path, now) = (self.path(index), self.now);
        child.store(self, index);
        let op = self.op_mut(index);
        op.state = State::Running;
        op.attempts = 1;
        op.last = Some(now);
        let Some(returned) = self.facts.returned else {
            let mut message = path;
            message.push_str(" calls a flow, and calls(…) of this flow does not have it: its result would not come back");
            self.fault.get_or_insert(crate::Fault::new("flow_listen", message));
            return;
        };
        let mut value = Vec::from(b"\xa2\x65input");
        put(&mut value, input);
        put(&mut value, b"\x65reply");
        Parent { schema: returned, key: self.key, path: String::leak(path), attempt: 1 }
            .write(&mut value);
        self.emit(schema, &value);
    }

    /// The call at this path, as the called flow knows it.
    fn caller(&self, path: String, attempt: u64) -> Option<Parent> {
        let schema = self.facts.returned?;
        Some(Parent { schema, key: self.key, path: String::leak(path), attempt })
    }

    /// Fold the result of a child. False if no call waits for it.
    pub fn settle_call(&mut self, returned: &Return) -> bool {
        let Some(index) = self.find(returned.path) else { return false };
        let op = self.op(index);
        if op.kind != Kind::Call || !op.state.is_open() || op.attempts != returned.attempt {
            return false;
        }
        let ending = Child::of(self, index).and_then(|child| child.ending);
        let is_awaited = ending.is_some_and(Ending::is_awaited);
        match returned.result {
            Ok(value) => {
                self.has_late_result |= is_awaited;
                self.end(index, State::Completed, Outcome::Value(value));
            }
            Err(_) if is_awaited => self.end(index, State::Cancelled, Outcome::None),
            Err(bytes) => {
                let Ok(cause) = whole(bytes, FlowError::read) else { return false };
                self.fail(index, failed(cause));
            }
        }
        true
    }

    /// End an open call whose branch has lost, or whose flow was canceled; the child ends, too. False
    /// if the child has to end first.
    pub fn cancel_call(&mut self, index: usize) -> bool {
        let child = Child::of(self, index).filter(|_| self.op(index).state == State::Running);
        if let Some(child) = child {
            match child.ending {
                Some(Ending::Canceled | Ending::TimedOut) => return false,
                Some(Ending::WithAnswer) => {
                    self.cancel_child(index, &child);
                    self.set_call_ending(index, Ending::Canceled);
                    return false;
                }
                Some(Ending::AtOnce) | None => self.cancel_child(index, &child),
            }
        }
        self.end(index, State::Cancelled, Outcome::None);
        true
    }

    /// Cancel the called flow, if this call has started it (FL-73).
    fn cancel_child(&mut self, index: usize, child: &Child) {
        let mut value = Vec::from(b"\xa2\x67command\xa2\x64$tag\x66Cancel\x66$value");
        let caller = match child.ending {
            Some(_) => self.caller(self.path(index), self.op(index).attempts),
            None => None,
        };
        match caller {
            Some(caller) => {
                put(&mut value, b"\xa2\x66parent");
                caller.write(&mut value);
            }
            None => put(&mut value, b"\xa1"),
        }
        put(&mut value, b"\x68rollback\xf5\x68instance");
        put(&mut value, child.key);
        self.emit(child.control, &value);
    }

    /// Tell the flow that called this one how it ended.
    pub fn answer(&mut self, parent: &Parent, result: Result<&[u8], &[u8]>) {
        let (arm, bytes) = match result {
            Ok(bytes) => ("Ok", bytes),
            Err(bytes) => ("Failed", bytes),
        };
        let mut value = Vec::from(b"\xa4\x64path");
        cbor::write_text(parent.path, &mut value);
        put(&mut value, b"\x66result");
        cbor::write_arm(arm, true, &mut value);
        cbor::write_bytes(bytes, &mut value);
        put(&mut value, b"\x67attempt");
        cbor::write_nat(parent.attempt, &mut value);
        put(&mut value, b"\x68instance");
        put(&mut value, parent.key);
        self.emit(parent.schema, &value);
    }
}

/// The field of a record at a path, such as `order.id`; null if there is none.
pub(super) fn field_of(record: Bytes, path: &str) -> Bytes {
    path.split('.').fold(record, |record, name| {
        let mut from = Reader::new(record);
        for _ in 0..from.map().unwrap_or(0) {
            match (from.text(), from.item()) {
                (Ok(found), Ok(value)) if found == name => return value,
                _ => {}
            }
        }
        b"\xf6"
    })
}

/// The failure of a call: of the kind, code and message of the child's, which is its cause.
fn failed(cause: FlowError) -> FlowError {
    let mut own = failure(cause.code(), cause.message());
    let make = match cause {
        FlowError::Rollback(_) => FlowError::Rollback,
        FlowError::Timeout(_) => FlowError::Timeout,
        FlowError::Canceled(_) => FlowError::Canceled,
        FlowError::Exhausted(_) => FlowError::Exhausted,
        _ => FlowError::Critical,
    };
    own.causes.push(cause);
    make(own)
}
