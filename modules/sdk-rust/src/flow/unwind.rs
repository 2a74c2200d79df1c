//! Compensations: effects that undo the steps of a flow, newest first and one at a time.

use alloc::string::String;
use alloc::vec::Vec;

use crate::cbor::{self, Reader};
use crate::schema::whole;
use crate::types::Duration;

use super::Cx;
use super::engine::{Core, Print};
use super::failure::{FlowError, failure};
use super::history::{Kind, State, Undo};
use super::mail::Answer;
use super::path::reference;
use super::scope::leaf;

/// Attempts of a compensation before it waits for a person, and again after each resumption.
const ATTEMPTS: u64 = 5;
const FIRST: Duration = Duration::seconds(1);
const MOST: Duration = Duration::minutes(1);
/// The end of the path of a compensation.
pub(super) const SUFFIX: &str = "/~undo";

impl Cx {
    /// Mark a point to which [`rollback_to`](Cx::rollback_to) can unwind.
    pub async fn checkpoint(self, name: &str) -> Result<(), FlowError> {
        leaf(self, Kind::Checkpoint, name, Print::None, |core, index| {
            let mut extra = Vec::new();
            cbor::write_nat(core.history.compensations.len() as u64, &mut extra);
            core.op_mut(index).set_extra(1, extra);
            core.complete(index, Vec::from(b"\xf6"));
        })
        .await?;
        Ok(())
    }

    /// Undo the steps since a checkpoint of this scope or one around it, newest first, and then
    /// continue. The compensations of parallel branches stay registered.
    ///
    /// ```
    /// # use aos_sdk::{prelude::*, flow::{Cx, FlowError}};
    /// # #[derive(Schema)] #[schema("trip/Booked@1")] struct Booked { id: String }
    /// # #[derive(Effect)] #[effect("trip/hotel.book@1", receipt = Booked, executor = "trip")]
    /// # struct Book { city: String }
    /// # #[derive(Effect)] #[effect("trip/hotel.cancel@1", receipt = Booked, executor = "trip")]
    /// # struct Cancel { id: String }
    /// async fn book(cx: Cx) -> Result<(), FlowError> {
    ///     cx.checkpoint("before-hotels").await?;
    ///     let undo = |booked: &Booked| Cancel { id: booked.id.clone() };
    ///     for city in ["Rome", "Oslo"] {
    ///         let booked = cx.step(city, Book { city: city.into() }).rollback(undo).await;
    ///         if booked.is_err() {
    ///             cx.rollback_to("no-hotels", "before-hotels").await?;
    ///             break;
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// A checkpoint that is not there is Critical, code `checkpoint`.
    pub async fn rollback_to(self, name: &str, checkpoint: &str) -> Result<(), FlowError> {
        let print = Print::Text(checkpoint);
        leaf(self, Kind::RollbackTo, name, print, |core, index| {
            core.run_rollback_to(index, checkpoint);
        })
        .await?;
        Ok(())
    }

    /// Make everything before this point final: it is never undone, and its messages do not
    /// come back. Parallel branches are not affected.
    pub async fn commit(self, name: &str) -> Result<(), FlowError> {
        leaf(self, Kind::Commit, name, Print::None, |core, index| {
            let before = core.undos_before(index, 0);
            core.remove_undos(&before);
            core.forget_taken(index);
            core.complete(index, Vec::from(b"\xf6"));
        })
        .await?;
        Ok(())
    }
}

impl Core {
    fn run_rollback_to(&mut self, index: usize, checkpoint: &str) {
        if self.op(index).state == State::Pending {
            let mut extra = Vec::new();
            cbor::write_text(checkpoint, &mut extra);
            self.op_mut(index).set_extra(1, extra);
            self.op_mut(index).state = State::Running;
            self.has_progressed = true;
        }
        let Some(mark) = self.mark(index, checkpoint) else {
            return self.refuse(
                index,
                "checkpoint",
                "no such checkpoint is in this scope or around it",
            );
        };
        if self.is_draining {
            return;
        }
        let since = self.undos_before(index, mark);
        if self.unwind(&since) {
            self.remove_undos(&since);
            self.complete(index, Vec::from(b"\xf6"));
        }
    }

    /// How many compensations there were at the nearest checkpoint of that name.
    fn mark(&self, index: usize, name: &str) -> Option<usize> {
        let mut scope = index;
        while scope != 0 {
            scope = self.op(scope).parent;
            let children = self.children(scope);
            let found = children.iter().find(|child| {
                self.op(**child).kind == Kind::Checkpoint && self.op(**child).name == name
            });
            if let Some(found) = found {
                return whole(self.op(*found).extra, Reader::nat).ok().map(|mark| mark as usize);
            }
        }
        None
    }

    /// The compensations from `mark` on of the steps before an operation: all except those of
    /// parallel branches.
    fn undos_before(&self, index: usize, mark: usize) -> Vec<usize> {
        let mut branches: Vec<(String, String)> = Vec::new();
        let mut at = index;
        while at != 0 {
            let parent = self.op(at).parent;
            if self.op(at).kind == Kind::Branch {
                branches.push((self.path(parent) + "/", self.path(at) + "/"));
            }
            at = parent;
        }
        let is_before = |path: &str| {
            branches.iter().all(|(all, own)| !path.starts_with(&**all) || path.starts_with(&**own))
        };
        let undos = self.history.compensations.iter().enumerate().skip(mark);
        undos.filter(|(_, undo)| is_before(undo.path)).map(|(place, _)| place).collect()
    }

    /// Drop compensations that are final, or done by a flow that continues.
    fn remove_undos(&mut self, places: &[usize]) {
        for op in &mut self.history.ops {
            if op.kind != Kind::Checkpoint || op.is_gone {
                continue;
            }
            let Ok(mark) = whole(op.extra, Reader::nat) else { continue };
            let before = places.iter().filter(|place| (**place as u64) < mark).count();
            if before > 0 {
                let mut extra = Vec::new();
                cbor::write_nat(mark - before as u64, &mut extra);
                op.set_extra(1, extra);
            }
        }
        for place in places.iter().rev() {
            self.history.compensations.remove(*place);
        }
    }

    /// Forget the messages that the operations before this one have consumed.
    fn forget_taken(&mut self, index: usize) {
        let mut at = index;
        while at != 0 {
            at = self.op(at).parent;
            self.forget_taken_of(at);
            if !matches!(self.op(at).kind, Kind::Join | Kind::Race) {
                self.children(at).into_iter().for_each(|child| self.forget_taken_of(child));
            }
        }
    }

    /// The compensations of the branches of a race that have lost. True when all are over.
    pub fn unwind_losers(&mut self, branches: &[usize], winner: usize) -> bool {
        let losers = branches.iter().filter(|branch| **branch != winner);
        let paths: Vec<String> = losers.map(|branch| self.path(*branch) + "/").collect();
        let undos = self.history.compensations.iter().enumerate();
        let places: Vec<usize> = undos
            .filter(|(_, undo)| paths.iter().any(|path| undo.path.starts_with(&**path)))
            .map(|(place, _)| place)
            .collect();
        let is_over = self.unwind(&places);
        if is_over {
            self.remove_undos(&places);
        }
        is_over
    }

    /// All compensations. True when all are over.
    pub fn unwind_all(&mut self) -> bool {
        let all: Vec<usize> = (0..self.history.compensations.len()).collect();
        self.unwind(&all)
    }

    /// Continue with some of the compensations. True when all of them are over.
    fn unwind(&mut self, places: &[usize]) -> bool {
        let state = |place: &&usize| self.history.compensations[**place].state;
        if places.iter().any(|place| matches!(state(&place), Undo::Running | Undo::Stuck)) {
            return false;
        }
        match places.iter().rev().find(|place| state(place) == Undo::Registered) {
            Some(place) => {
                if self.room_to_end().is_some() {
                    self.attempt_undo(*place);
                }
                false
            }
            None => true,
        }
    }

    fn attempt_undo(&mut self, place: usize) {
        let now = self.now;
        let undo = self.history.compensations[place].changes();
        undo.state = Undo::Running;
        undo.attempts += 1;
        undo.last = Some(now);
        let (effect, params, attempt) = (undo.effect, undo.params, undo.attempts);
        let path = String::from(undo.path) + SUFFIX;
        self.has_progressed = true;
        self.request(effect, params, Some(&path), Some(&reference(&path, attempt, "")));
    }

    /// Fold the answer to a compensation, or to its pause. False if it is for none that runs.
    pub fn settle_undo(&mut self, path: &str, attempt: u64, role: &str, answer: Answer) -> bool {
        let running = self.history.compensations.iter().position(|undo| {
            undo.path == path && undo.state == Undo::Running && undo.attempts == attempt
        });
        let Some(place) = running else { return false };
        if role == "retry" {
            self.attempt_undo(place);
            return true;
        }
        if !role.is_empty() {
            return false;
        }
        let now = self.now;
        let error = match answer {
            Answer::Ok(_) => {
                let undo = self.history.compensations[place].changes();
                undo.state = Undo::Done;
                undo.done = Some(now);
                undo.failure = None;
                return true;
            }
            Answer::Error { code, message, .. } | Answer::Rejected { code, message } => {
                FlowError::Critical(failure(code, message))
            }
            Answer::Timeout { message } => FlowError::Timeout(failure("timeout", message)),
            Answer::Canceled { message } => FlowError::Canceled(failure("canceled", message)),
        };
        self.fail_undo(place, error);
        true
    }

    fn fail_undo(&mut self, place: usize, mut error: FlowError) {
        let undo = self.history.compensations[place].changes();
        let path = String::from(undo.path) + SUFFIX;
        error.failure_mut().path = path.clone();
        undo.failure = Some(error.bytes().leak());
        let attempt = undo.attempts;
        if attempt % ATTEMPTS == 0 {
            undo.state = Undo::Stuck;
            return;
        }
        let pause = FIRST.doubled(attempt % ATTEMPTS - 1, MOST).ns() as u64;
        let deadline = self.now.saturating_add(pause);
        self.timer(deadline, &reference(&path, attempt, "retry"));
    }

    pub fn is_stuck(&self) -> bool {
        self.history.compensations.iter().any(|undo| undo.state == Undo::Stuck)
    }

    /// Retry the stuck compensations, or skip them.
    pub fn resume(&mut self, skips: bool) {
        let now = self.now;
        for undo in &mut self.history.compensations {
            if undo.state == Undo::Stuck {
                undo.changes().state = if skips { Undo::Skipped } else { Undo::Registered };
                undo.done = skips.then_some(now);
            }
        }
    }

    /// Skip all compensations that are not done, also those of open steps that are in doubt, and
    /// cancel those in flight.
    pub fn skip_undos(&mut self) {
        self.register_unknown_within(0);
        self.forget_rollbacks_within(0);
        let now = self.now;
        let mut canceled = Vec::new();
        for undo in &mut self.history.compensations {
            if matches!(undo.state, Undo::Done | Undo::Skipped) {
                continue;
            }
            if undo.state == Undo::Running {
                let path = String::from(undo.path) + SUFFIX;
                canceled.push(reference(&path, undo.attempts, ""));
                canceled.push(reference(&path, undo.attempts, "retry"));
            }
            undo.changes().state = Undo::Skipped;
            undo.done = Some(now);
        }
        canceled.iter().for_each(|reference| self.cancel(reference));
    }
}
