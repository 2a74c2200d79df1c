//! `join` and `race`: branches side by side.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context as Task, Poll};

use crate::cbor::{self, Misfit, Reader};
use crate::schema::{Schema, decode, encode, whole};

use super::Cx;
use super::engine::{Core, Print, Slot};
use super::failure::{FlowError, failure};
use super::history::{Bytes, Kind, Op, Outcome, State, put};
use super::scope::poll_within;
use super::step::fnv;

type Body<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, FlowError>> + 'a>>;

/// A branch without its type: name, body, and the check of a stored value.
#[doc(hidden)]
pub struct Part<'a> {
    name: String,
    body: Body<'a>,
    check: fn(Bytes) -> Result<(), Misfit>,
}

impl<'a, T: Schema> From<Branch<'a, T>> for Part<'a> {
    fn from(branch: Branch<'a, T>) -> Part<'a> {
        let Branch { name, body, .. } = branch;
        Part { name, body, check: |value| decode::<T>(value).map(drop) }
    }
}

/// A part of a join or race: [`branch`].
#[must_use = "a branch runs in a join or race"]
pub struct Branch<'a, T> {
    name: String,
    body: Body<'a>,
    value: PhantomData<fn() -> T>,
}

/// A branch of a join or race. The closure may borrow what is around it, and cannot change it: the
/// body of a branch that has ended is not run again in a replay, so a change would be lost. Results
/// leave a branch by its value.
pub fn branch<'a, T, F>(name: impl Into<String>, body: F) -> Branch<'a, T>
where
    T: Schema + 'a,
    F: AsyncFn() -> Result<T, FlowError> + Sync + 'a,
{
    let body = Box::pin(async move { body().await.map(|value| encode(&value)) });
    Branch { name: name.into(), body, value: PhantomData }
}

/// The branch that won a race, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Won<T> {
    pub branch: String,
    pub value: T,
}

/// Branches of several types: a tuple of 2 to 8.
pub trait Branches<'a> {
    /// The tuple of their values.
    type Values: 'a;

    #[doc(hidden)]
    fn parts(self) -> Vec<Part<'a>>;
    #[doc(hidden)]
    fn read(from: &mut Reader<'_>) -> Result<Self::Values, crate::cbor::Stop>;
}

macro_rules! tuples {
    ($(($count:literal: $($ty:ident $at:tt)+))*) => {
        $(
            impl<'a, $($ty: Schema + 'a),+> Branches<'a> for ($(Branch<'a, $ty>,)+) {
                type Values = ($($ty,)+);

                fn parts(self) -> Vec<Part<'a>> {
                    alloc::vec![$(self.$at.into()),+]
                }

                fn read(from: &mut Reader<'_>) -> Result<Self::Values, crate::cbor::Stop> {
                    if from.list()? != $count {
                        return Err(from.stop("as many values as branches"));
                    }
                    Ok(($($ty::read(from)?,)+))
                }
            }
        )*
    };
}

tuples! {
    (2: A 0 B 1)
    (3: A 0 B 1 C 2)
    (4: A 0 B 1 C 2 D 3)
    (5: A 0 B 1 C 2 D 3 E 4)
    (6: A 0 B 1 C 2 D 3 E 4 F 5)
    (7: A 0 B 1 C 2 D 3 E 4 F 5 G 6)
    (8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7)
}

/// A join or race without its types.
pub(super) struct Parallel<'a> {
    pub cx: Cx,
    pub kind: Kind,
    pub name: String,
    pub names: Vec<String>,
    pub bodies: Vec<Option<Body<'a>>>,
    pub checks: Vec<fn(Bytes) -> Result<(), Misfit>>,
    pub slot: Slot,
    /// The operations of the branches.
    pub branches: Vec<usize>,
    pub at_most: usize,
    pub unwinds_losers: bool,
}

impl<'a> Parallel<'a> {
    pub fn new(cx: Cx, kind: Kind, name: &str, parts: Vec<Part<'a>>) -> Parallel<'a> {
        let checks = parts.iter().map(|part| part.check).collect();
        let (names, bodies) = parts.into_iter().map(|part| (part.name, Some(part.body))).unzip();
        Parallel {
            cx,
            kind,
            name: String::from(name),
            names,
            bodies,
            checks,
            slot: 0,
            branches: Vec::new(),
            at_most: usize::MAX,
            unwinds_losers: false,
        }
    }

    /// The operation and the value that it ended with, or None for pending.
    fn poll(&mut self, task: &mut Task<'_>) -> Option<(usize, Result<Bytes, FlowError>)> {
        let engine = self.cx.engine();
        let is_first = self.slot == 0;
        let print = Print::Branches(&self.names);
        let index = engine.with(|core| core.enter(&mut self.slot, self.kind, &self.name, print))?;
        if is_first {
            engine.with(|core| core.begin_parallel(index, &self.names, self.at_most));
            self.branches = engine.with(|core| core.children(index));
            engine.with(|core| core.check_branches(&self.branches, &self.checks));
        }
        if engine.with(|core| core.op(index).state.is_open()) {
            self.poll_branches(index, task);
        }
        engine.with(|core| {
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

    pub fn poll_branches(&mut self, index: usize, task: &mut Task<'_>) {
        let engine = self.cx.engine();
        let mut verdict = engine.with(|core| core.verdict(self.kind, &self.branches));
        let mut free = engine.with(|core| core.free_places(&self.branches, self.at_most));
        for (place, branch) in self.branches.iter().copied().enumerate() {
            let is_lost = verdict != Verdict::Open;
            if !engine.with(|core| core.may_run(branch, is_lost, &mut free)) {
                continue;
            }
            let Some(body) = &mut self.bodies[place] else { continue };
            // A branch that has lost is polled once more, and begins nothing: a step whose result
            // came in this turn registers its compensation.
            let was_draining = engine.with(|core| core.drain(core.is_draining || is_lost));
            let polled = poll_within(self.cx, branch, body.as_mut(), task);
            let is_draining = engine.with(|core| core.drain(was_draining));
            let Poll::Ready(ended) = polled else { continue };
            self.bodies[place] = None;
            if is_draining {
                engine.with(|core| core.is_blocked = true);
                continue;
            }
            verdict = engine.with(|core| {
                core.collapse(branch, ended);
                core.verdict_of(self.kind, branch)
            });
            free += 1;
        }
        engine.with(|core| {
            if verdict == Verdict::Open {
                verdict = core.verdict(self.kind, &self.branches);
            }
            core.settle_parallel(index, self.kind, &self.branches, verdict, self.unwinds_losers);
        });
    }
}

/// The consequence of the branches' ends for a join or race.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Open,
    /// This branch of a race was the first to succeed.
    Won(usize),
    /// This branch ended with Rollback, and so does the join or race.
    RolledBack(usize),
    /// All branches of a join have ended, or all of a race have failed.
    Over,
}

impl Core {
    pub fn begin_parallel(&mut self, index: usize, names: &[String], at_most: usize) {
        if self.op(index).state != State::Pending {
            return;
        }
        self.op_mut(index).changes().state = State::Running;
        if let Some(twice) = doubled(names) {
            self.bad_name::<()>(index, twice, "is there twice");
            return;
        }
        for name in names {
            if self.add(index, Kind::Branch, name).is_none() {
                return;
            }
        }
        if at_most == 0 {
            let words = "a join of at most 0 branches at the same time";
            self.collapse(index, Err(FlowError::Critical(failure("at_most", words))));
        }
    }

    /// Decode the values of finished branches in a turn that reads ahead: the code of an open join or
    /// race reads them later.
    fn check_branches(&mut self, branches: &[usize], checks: &[fn(Bytes) -> Result<(), Misfit>]) {
        if !self.reads_ahead {
            return;
        }
        for (branch, check) in branches.iter().zip(checks) {
            let Outcome::Value(value) = self.op(*branch).outcome else { continue };
            if let Err(misfit) = check(value) {
                self.misfit::<()>(*branch, misfit);
            }
        }
    }

    /// The consequence of all branches: that of the first decisive one, in their order.
    fn verdict(&self, kind: Kind, branches: &[usize]) -> Verdict {
        let decisive = branches.iter().map(|branch| self.verdict_of(kind, *branch));
        match decisive.into_iter().find(|verdict| *verdict != Verdict::Open) {
            Some(verdict) => verdict,
            None if branches.iter().any(|branch| self.op(*branch).state.is_open()) => Verdict::Open,
            None => Verdict::Over,
        }
    }

    fn verdict_of(&self, kind: Kind, branch: usize) -> Verdict {
        let op = self.op(branch);
        match op.state {
            State::Completed if kind == Kind::Race => Verdict::Won(branch),
            State::Failed | State::Exhausted if is_rollback(op) => Verdict::RolledBack(branch),
            _ => Verdict::Open,
        }
    }

    /// How many branches may begin.
    fn free_places(&self, branches: &[usize], at_most: usize) -> usize {
        let is_running = |branch: &&usize| self.op(**branch).state == State::Running;
        at_most.saturating_sub(branches.iter().filter(is_running).count())
    }

    /// Whether a branch is to be polled; one whose turn has come begins.
    fn may_run(&mut self, branch: usize, is_lost: bool, free: &mut usize) -> bool {
        match self.op(branch).state {
            State::Running => true,
            State::Pending if !is_lost && !self.is_draining && *free > 0 => {
                *free -= 1;
                self.op_mut(branch).changes().state = State::Running;
                self.has_progressed = true;
                true
            }
            _ => false,
        }
    }

    fn drain(&mut self, is_draining: bool) -> bool {
        core::mem::replace(&mut self.is_draining, is_draining)
    }

    /// End the join or race if its branches decide it, and the turn has room to cancel the others.
    fn settle_parallel(
        &mut self,
        index: usize,
        kind: Kind,
        branches: &[usize],
        verdict: Verdict,
        unwinds_losers: bool,
    ) {
        if self.fault.is_some() || verdict == Verdict::Open || self.is_draining {
            return;
        }
        if !self.close_branches(branches) {
            return;
        }
        let ended = match verdict {
            Verdict::Open => return,
            Verdict::Won(winner) => {
                if unwinds_losers && !self.unwind_losers(branches, winner) {
                    return;
                }
                Ok(self.won(winner))
            }
            Verdict::RolledBack(branch) => Err(self.failure_of(branch)),
            Verdict::Over => self.joined(kind, branches),
        };
        self.collapse(index, ended);
    }

    /// Cancel the branches that are open, and give their messages back in order.
    fn close_branches(&mut self, branches: &[usize]) -> bool {
        branches.iter().rev().fold(true, |is_over, branch| self.close(*branch) && is_over)
    }

    fn failure_of(&mut self, index: usize) -> FlowError {
        match self.op(index).outcome {
            Outcome::Failure(bytes) => super::engine::read_failure(bytes),
            _ => FlowError::Canceled(failure("canceled", "the branch was canceled")),
        }
    }

    fn value_of(&self, index: usize) -> Bytes {
        match self.op(index).outcome {
            Outcome::Value(value) => value,
            _ => b"\xf6",
        }
    }

    /// `{value, branch}`.
    fn won(&self, winner: usize) -> Vec<u8> {
        let mut out = Vec::from(b"\xa2\x65value");
        put(&mut out, self.value_of(winner));
        put(&mut out, b"\x66branch");
        cbor::write_text(self.op(winner).name, &mut out);
        out
    }

    fn joined(&mut self, kind: Kind, branches: &[usize]) -> Result<Vec<u8>, FlowError> {
        let mut causes = Vec::new();
        for branch in branches {
            if self.op(*branch).state != State::Completed {
                causes.push(self.failure_of(*branch));
            }
        }
        if kind == Kind::Join && causes.is_empty() {
            let mut values = Vec::new();
            cbor::write_list(branches.len(), &mut values);
            branches.iter().for_each(|branch| put(&mut values, self.value_of(*branch)));
            return Ok(values);
        }
        let (code, message) = match kind {
            Kind::Join => ("join", "branches failed"),
            _ => ("race", "all branches failed"),
        };
        let mut all = failure(code, message);
        all.causes = causes;
        Err(if kind == Kind::Join { FlowError::Join(all) } else { FlowError::Race(all) })
    }
}

/// A name that is there twice. It compares hashes, because sorting texts is more code than a
/// whole join.
fn doubled(names: &[String]) -> Option<&str> {
    let hashes: Vec<u64> = names.iter().map(|name| fnv(name.as_bytes())).collect();
    for (place, hash) in hashes.iter().enumerate() {
        for earlier in 0..place {
            if hashes[earlier] == *hash && names[earlier] == names[place] {
                return Some(&names[place]);
            }
        }
    }
    None
}

fn is_rollback(op: &Op) -> bool {
    match op.outcome {
        Outcome::Failure(bytes) => bytes.starts_with(b"\x85\x68rollback"),
        _ => false,
    }
}

/// Several branches of one type or of several: [`Cx::join`], [`Cx::join_all`].
#[must_use = "no branch runs before `.await`"]
pub struct Join<'a, V> {
    parallel: Parallel<'a>,
    read: fn(&mut Reader<'_>) -> Result<V, crate::cbor::Stop>,
}

impl<'a, V> Join<'a, V> {
    pub(super) fn tuple<B: Branches<'a, Values = V>>(
        cx: Cx,
        name: &str,
        branches: B,
    ) -> Join<'a, V> {
        Join { parallel: Parallel::new(cx, Kind::Join, name, branches.parts()), read: B::read }
    }

    /// Run at most so many branches at the same time, in the order in which they are given.
    pub fn at_most(mut self, branches: usize) -> Self {
        self.parallel.at_most = branches;
        self
    }
}

impl<'a, T: Schema> Join<'a, Vec<T>> {
    pub(super) fn all(
        cx: Cx,
        name: &str,
        branches: impl IntoIterator<Item = Branch<'a, T>>,
    ) -> Join<'a, Vec<T>> {
        Join { parallel: Parallel::new(cx, Kind::Join, name, parts(branches)), read: Schema::read }
    }
}

impl<V> Future for Join<'_, V> {
    type Output = Result<V, FlowError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let me = self.get_mut();
        let Some((index, ended)) = me.parallel.poll(task) else { return Poll::Pending };
        let value = match ended {
            Ok(value) => value,
            Err(error) => return Poll::Ready(Err(error)),
        };
        read_value(me.parallel.cx, index, value, me.read)
    }
}

/// The branch that is first to succeed: [`Cx::race`].
#[must_use = "no branch runs before `.await`"]
pub struct Race<'a, T> {
    parallel: Parallel<'a>,
    value: PhantomData<fn() -> T>,
}

impl<'a, T: Schema> Race<'a, T> {
    pub(super) fn new(
        cx: Cx,
        name: &str,
        branches: impl IntoIterator<Item = Branch<'a, T>>,
    ) -> Race<'a, T> {
        let parallel = Parallel::new(cx, Kind::Race, name, parts(branches));
        Race { parallel, value: PhantomData }
    }

    /// Run the compensations of the branches that have lost now, before the race ends. Without it
    /// they stay registered, and run if the flow fails.
    pub fn rollback_losers(mut self) -> Self {
        self.parallel.unwinds_losers = true;
        self
    }
}

impl<T: Schema> Future for Race<'_, T> {
    type Output = Result<Won<T>, FlowError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let me = self.get_mut();
        let Some((index, ended)) = me.parallel.poll(task) else { return Poll::Pending };
        let value = match ended {
            Ok(value) => value,
            Err(error) => return Poll::Ready(Err(error)),
        };
        read_value(me.parallel.cx, index, value, |from| {
            from.record(2)?;
            from.field(b"\x65value")?;
            let value = T::read(from)?;
            from.field(b"\x66branch")?;
            Ok(Won { branch: String::from(from.text()?), value })
        })
    }
}

fn read_value<V>(
    cx: Cx,
    index: usize,
    value: Bytes,
    read: impl FnOnce(&mut Reader<'static>) -> Result<V, crate::cbor::Stop>,
) -> Poll<Result<V, FlowError>> {
    match whole(value, read) {
        Ok(value) => Poll::Ready(Ok(value)),
        Err(misfit) => {
            cx.engine().with(|core| core.misfit::<()>(index, misfit));
            Poll::Pending
        }
    }
}

fn parts<'a, T: Schema>(branches: impl IntoIterator<Item = Branch<'a, T>>) -> Vec<Part<'a>> {
    branches.into_iter().map(Part::from).collect()
}
