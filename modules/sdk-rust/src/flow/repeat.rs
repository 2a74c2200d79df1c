//! `loop_`: a body that is repeated with a durable state.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::future::{Future, IntoFuture, poll_fn};
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::Poll;

use crate::cbor::{self, Reader, Stop};
use crate::schema::{Schema, encode, whole};

use super::Cx;
use super::engine::Core;
use super::failure::FlowError;
use super::history::{Bytes, Kind, Op, Outcome, State};
use super::path;
use super::scope::{open, typed, within};
use super::inbox::{Message, write_messages};

/// The result of an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loop<S, T> {
    /// Repeat the body with this state.
    Continue(S),
    /// End the loop with this value.
    Break(T),
}

/// A loop of a flow: [`Cx::loop_`].
#[must_use = "nothing happens before `.await`"]
pub struct Repeat<'a, S, T, F> {
    cx: Cx,
    name: String,
    first: S,
    body: F,
    history: Retention,
    value: PhantomData<&'a fn() -> T>,
}

/// Which finished iterations stay readable.
#[derive(Clone, Copy)]
pub(super) struct Retention {
    pub commit: u64,
    pub every: u64,
    pub keep: u64,
}

impl<'a, S, T, F> Repeat<'a, S, T, F> {
    pub(super) fn new(cx: Cx, name: &str, first: S, body: F) -> Repeat<'a, S, T, F> {
        let history = Retention { commit: 1, every: 1, keep: 0 };
        Repeat { cx, name: String::from(name), first, body, history, value: PhantomData }
    }

    /// At least 1; it has no other effect, because the state of each iteration is stored.
    pub fn commit_interval(mut self, iterations: u64) -> Self {
        self.history.commit = iterations;
        self
    }

    /// Remove old iterations from the history each so many iterations (at least 1, default 1).
    pub fn history_every(mut self, iterations: u64) -> Self {
        self.history.every = iterations;
        self
    }

    /// Keep the last so many iterations readable, without their values (default 0).
    pub fn history_keep(mut self, iterations: u64) -> Self {
        self.history.keep = iterations;
        self
    }
}

impl<'a, S, T, F> IntoFuture for Repeat<'a, S, T, F>
where
    S: Schema + 'a,
    T: Schema + 'a,
    F: AsyncFn(S) -> Result<Loop<S, T>, FlowError> + Sync + 'a,
{
    type Output = Result<T, FlowError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(run(self))
    }
}

async fn run<S, T, F>(repeat: Repeat<'_, S, T, F>) -> Result<T, FlowError>
where
    S: Schema,
    T: Schema,
    F: AsyncFn(S) -> Result<Loop<S, T>, FlowError>,
{
    let Repeat { cx, name, first, body, history, .. } = repeat;
    let engine = cx.engine();
    let index = match open(cx, Kind::Loop, &name).await {
        Ok(index) => index,
        Err((index, ended)) => return Ok(typed(cx, index, ended?).await),
    };
    engine.with(|core| core.begin_loop(index, history, &|| encode(&first)));
    while engine.with(|core| core.op(index).state.is_open()) {
        let (iteration, state) = poll_fn(|_| match engine.with(|core| core.iteration(index)) {
            Some(found) => Poll::Ready(found),
            None => {
                engine.with(|core| core.wait(index));
                Poll::Pending
            }
        })
        .await;
        let state: S = typed(cx, index, state).await;
        let ended = within(cx, index, iteration, body(state)).await.map(|end| match end {
            Loop::Continue(state) => Loop::Continue(encode(&state)),
            Loop::Break(value) => Loop::Break(encode(&value)),
        });
        engine.with(|core| core.end_iteration(index, iteration, history, ended));
    }
    let value = engine.with(|core| core.result(index))?;
    Ok(typed(cx, index, value).await)
}

/// The body of an open loop: `[null, iteration, state, messages]`.
struct Open {
    number: u64,
    state: Bytes,
    taken: Vec<Message>,
}

impl Open {
    fn of(core: &Core, index: usize) -> Option<Open> {
        whole(core.op(index).extra, Open::read).ok()
    }

    fn read(from: &mut Reader<'static>) -> Result<Open, Stop> {
        let (number, state) = (from.nat()?, from.bytes()?);
        let mut taken = Vec::new();
        for _ in 0..from.list()? {
            taken.push(Message::read(from)?);
        }
        Ok(Open { number, state, taken })
    }

    fn store(&self, core: &mut Core, index: usize) {
        let mut out = Vec::new();
        cbor::write_nat(self.number, &mut out);
        cbor::write_bytes(self.state, &mut out);
        write_messages(&self.taken, &mut out);
        core.op_mut(index).set_extra(3, out);
    }
}

impl Core {
    pub fn begin_loop(&mut self, index: usize, history: Retention, first: &dyn Fn() -> Vec<u8>) {
        if self.op(index).extras > 0 {
            return;
        }
        if history.commit == 0 || history.every == 0 {
            return self.refuse(index, "interval", "an interval of a loop is 0: it is at least 1");
        }
        Open { number: 0, state: first().leak(), taken: Vec::new() }.store(self, index);
    }

    /// The operation of the iteration that runs, and its state. None if it cannot begin now.
    pub fn iteration(&mut self, index: usize) -> Option<(usize, Bytes)> {
        if self.fault.is_some() {
            return None;
        }
        let open = Open::of(self, index)?;
        let last = self.op(index).last_child;
        if last != 0 && self.op(last).state.is_open() {
            return Some((last, open.state));
        }
        self.room()?;
        let iteration = self.add(index, Kind::Iteration, &path::iteration(open.number))?;
        self.op_mut(iteration).state = State::Running;
        Some((iteration, open.state))
    }

    pub fn end_iteration(
        &mut self,
        index: usize,
        iteration: usize,
        history: Retention,
        ended: Result<Loop<Vec<u8>, Vec<u8>>, FlowError>,
    ) {
        let Some(mut open) = Open::of(self, index) else { return };
        if self.is_in_branch(index) {
            open.taken.extend(self.taken_within(iteration));
        }
        self.end(iteration, State::Completed, Outcome::None);
        if ended.is_err() {
            self.op_mut(iteration).state = State::Failed;
        }
        open.number += 1;
        self.strip(iteration);
        self.trim(index, open.number, history);
        if let Ok(Loop::Continue(state)) = ended {
            open.state = state.leak();
            return open.store(self, index);
        }
        let mut extra = Vec::new();
        write_messages(&open.taken, &mut extra);
        self.op_mut(index).set_extra(1, extra);
        match ended {
            Ok(Loop::Continue(_)) => {}
            Ok(Loop::Break(value)) => self.complete(index, value),
            Err(error) => self.fail(index, error),
        }
    }

    pub fn forget_taken_of_loop(&mut self, index: usize) {
        if let Some(mut open) = Open::of(self, index) {
            open.taken.clear();
            open.store(self, index);
        }
    }

    /// Remove the values from a finished iteration.
    fn strip(&mut self, index: usize) {
        for child in self.children(index) {
            self.strip(child);
            let op = self.op_mut(child).changes();
            op.outcome = Outcome::None;
            op.set_extra(0, Vec::new());
        }
    }

    /// Remove the iterations that are no longer kept.
    fn trim(&mut self, index: usize, ended: u64, history: Retention) {
        if ended % history.every != 0 {
            return;
        }
        let children = self.children(index);
        let too_many =
            children.len().saturating_sub(usize::try_from(history.keep).unwrap_or(usize::MAX));
        for child in children.into_iter().take(too_many) {
            self.drop_children(child);
            let sibling = self.op(child).sibling;
            self.op_mut(child).is_gone = true;
            let op: &mut Op = self.op_mut(index);
            op.first_child = sibling;
            if sibling == 0 {
                op.last_child = 0;
            }
        }
    }
}
