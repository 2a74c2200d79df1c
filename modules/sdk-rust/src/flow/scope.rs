//! Futures of operations, and bodies within operations.

use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context as Task, Poll};

use crate::cbor::{self, Reader};
use crate::schema::{Schema, decode, encode};

use super::Cx;
use super::engine::{Core, Print};
use super::failure::FlowError;
use super::history::{Bytes, Kind, Outcome, State};
use super::inbox::{Message, write_messages};

/// An operation without a body: `run` begins it, continues it and ends it, while it is open.
pub(super) async fn leaf(
    cx: Cx,
    kind: Kind,
    name: &str,
    print: Print<'_>,
    mut run: impl FnMut(&mut Core, usize),
) -> Result<(usize, Bytes), FlowError> {
    let mut slot = 0;
    poll_fn(move |_| {
        cx.engine().with(|core| poll_leaf(core, &mut slot, kind, name, print, &mut run))
    })
    .await
}

fn poll_leaf(
    core: &mut Core,
    slot: &mut usize,
    kind: Kind,
    name: &str,
    print: Print<'_>,
    run: &mut dyn FnMut(&mut Core, usize),
) -> Poll<Result<(usize, Bytes), FlowError>> {
    let Some(index) = core.enter(slot, kind, name, print) else { return Poll::Pending };
    if core.op(index).state.is_open() {
        run(core, index);
    }
    if core.fault.is_some() {
        return Poll::Pending;
    }
    if core.op(index).state.is_open() {
        core.wait(index);
        return Poll::Pending;
    }
    Poll::Ready(core.result(index).map(|value| (index, value)))
}

/// The value of an operation, as its type. Where it does not fit, the turn ends with a fault.
pub(super) async fn typed<T: Schema>(cx: Cx, index: usize, value: Bytes) -> T {
    match decode(value) {
        Ok(value) => value,
        Err(misfit) => {
            cx.engine().with(|core| core.misfit::<()>(index, misfit));
            core::future::pending().await
        }
    }
}

/// Poll a body as that of the operation `scope`.
pub(super) fn poll_within<T>(
    cx: Cx,
    scope: usize,
    body: Pin<&mut (dyn Future<Output = T> + '_)>,
    task: &mut Task<'_>,
) -> Poll<T> {
    let engine = cx.engine();
    let outer = engine.with(|core| core::mem::replace(&mut core.scope, scope));
    let polled = body.poll(task);
    let is_over = engine.with(|core| {
        core.scope = outer;
        match polled {
            Poll::Ready(_) => core.leave_body(scope),
            Poll::Pending => {
                core.pend_body(scope);
                false
            }
        }
    });
    if is_over { polled } else { Poll::Pending }
}

/// Poll a body within an operation until it ends. `owner` is what the scope around waits for.
pub(super) async fn within<T>(
    cx: Cx,
    owner: usize,
    scope: usize,
    body: impl Future<Output = T>,
) -> T {
    let mut body = core::pin::pin!(body);
    poll_fn(move |task| {
        let polled = poll_within(cx, scope, body.as_mut(), task);
        if polled.is_pending() {
            cx.engine().with(|core| core.wait(owner));
        }
        polled
    })
    .await
}

/// [`Cx::scope`].
pub(super) async fn run_scope<T: Schema>(
    cx: Cx,
    name: &str,
    body: impl AsyncFn() -> Result<T, FlowError>,
) -> Result<T, FlowError> {
    let index = match open(cx, Kind::Scope, name).await {
        Ok(index) => index,
        Err((index, ended)) => return Ok(typed(cx, index, ended?).await),
    };
    let ended = within(cx, index, index, body()).await.map(|value| encode(&value));
    cx.engine().with(|core| core.collapse(index, ended));
    let value = cx.engine().with(|core| core.result(index))?;
    Ok(typed(cx, index, value).await)
}

/// Begin an operation with a body: its index, or the end that it has come to.
pub(super) async fn open(
    cx: Cx,
    kind: Kind,
    name: &str,
) -> Result<usize, (usize, Result<Bytes, FlowError>)> {
    let mut slot = 0;
    poll_fn(move |_| {
        cx.engine().with(|core| {
            let Some(index) = core.enter(&mut slot, kind, name, Print::None) else {
                return Poll::Pending;
            };
            if !core.op(index).state.is_open() {
                return Poll::Ready(Err((index, core.result(index))));
            }
            if core.op(index).state == State::Pending {
                core.op_mut(index).changes().state = State::Running;
            }
            Poll::Ready(Ok(index))
        })
    })
    .await
}

impl Core {
    /// End an operation that has a body, or branches, with its result, and drop the
    /// operations in it.
    pub fn collapse(&mut self, index: usize, ended: Result<Vec<u8>, FlowError>) {
        self.close_body(index);
        match ended {
            Ok(value) => self.complete(index, value),
            Err(error) => self.fail(index, error),
        }
    }

    /// Drop the operations in an operation, and store the messages that it consumed, if its branch
    /// may still lose and has to give them back.
    fn close_body(&mut self, index: usize) {
        let is_parallel = matches!(self.op(index).kind, Kind::Join | Kind::Race);
        let mut extra = if is_parallel { self.branch_names(index) } else { Vec::new() };
        let taken = if self.is_in_branch(index) { self.taken_within(index) } else { Vec::new() };
        write_messages(&taken, &mut extra);
        self.drop_children(index);
        self.op_mut(index).set_extra(1 + is_parallel as usize, extra);
    }

    /// Whether a branch around the operation, or itself, may be canceled.
    pub fn is_in_branch(&self, index: usize) -> bool {
        let mut at = index;
        while at != 0 {
            if self.op(at).kind == Kind::Branch {
                return true;
            }
            at = self.op(at).parent;
        }
        false
    }

    /// The messages that an operation and all within it have consumed.
    pub fn taken_within(&self, index: usize) -> Vec<Message> {
        let mut taken = Vec::new();
        self.collect_taken(index, &mut taken);
        taken
    }

    fn collect_taken(&self, index: usize, taken: &mut Vec<Message>) {
        let op = self.op(index);
        let mut from = Reader::new(op.extra);
        match op.kind {
            Kind::Listen => return self.messages_of(index, taken),
            Kind::Loop if op.extras == 3 => {
                let _ = (from.item(), from.item());
            }
            Kind::Join | Kind::Race if op.extras == 2 => drop(from.item()),
            Kind::Loop | Kind::Branch | Kind::Scope if op.extras == 1 => {}
            _ => from = Reader::new(b"\x80"),
        }
        for _ in 0..from.list().unwrap_or(0) {
            taken.extend(Message::read(&mut from));
        }
        for child in self.children(index) {
            self.collect_taken(child, taken);
        }
    }

    /// Forget the messages that an operation itself has consumed: they do not come back.
    pub fn forget_taken_of(&mut self, index: usize) {
        let op = self.op(index);
        match op.kind {
            Kind::Listen => self.forget_messages_of(index),
            Kind::Loop if op.state.is_open() => self.forget_taken_of_loop(index),
            Kind::Join | Kind::Race if op.extras == 2 => {
                let mut from = Reader::new(op.extra);
                let mut extra = from.item().map(Vec::from).unwrap_or_default();
                cbor::write_list(0, &mut extra);
                self.op_mut(index).set_extra(2, extra);
            }
            Kind::Loop | Kind::Branch | Kind::Scope if op.extras == 1 => {
                self.op_mut(index).set_extra(1, Vec::from(b"\x80"));
            }
            _ => {}
        }
    }

    pub fn drop_children(&mut self, index: usize) {
        for child in self.children(index) {
            self.drop_children(child);
            self.op_mut(child).is_gone = true;
        }
        let op = self.op_mut(index);
        (op.first_child, op.last_child) = (0, 0);
    }

    /// Cancel an open operation with everything in it: effects, timers and child flows are told,
    /// messages go back to the inbox. False if the turn has no room for all of it, or an answer has
    /// to come first (`Ending`); then it has to be called again in the next turn.
    pub fn close(&mut self, index: usize) -> bool {
        if !self.op(index).state.is_open() {
            return true;
        }
        if !self.cancel_open(index) {
            return false;
        }
        let taken = self.taken_within(index);
        self.drop_children(index);
        if matches!(self.op(index).kind, Kind::Branch | Kind::Scope | Kind::Loop) {
            self.op_mut(index).set_extra(0, Vec::new());
        }
        if self.inbox.give_back(&taken).is_none() {
            self.unreadable_inbox();
        }
        true
    }

    /// Cancel what is open in an operation, and then itself.
    pub fn cancel_open(&mut self, index: usize) -> bool {
        let mut is_over = true;
        for child in self.children(index) {
            if self.op(child).state.is_open() {
                is_over &= self.cancel_open(child);
            }
        }
        if !is_over || self.room_to_end().is_none() {
            return false;
        }
        match self.op(index).kind {
            Kind::Step => return self.cancel_step(index),
            Kind::Call => return self.cancel_call(index),
            Kind::Sleep | Kind::Listen => self.cancel_wait(index),
            _ => self.end(index, State::Cancelled, Outcome::None),
        }
        true
    }

    fn branch_names(&self, index: usize) -> Vec<u8> {
        let branches = self.children(index);
        let mut out = Vec::new();
        cbor::write_list(branches.len(), &mut out);
        branches.iter().for_each(|branch| cbor::write_text(self.op(*branch).name, &mut out));
        out
    }
}
