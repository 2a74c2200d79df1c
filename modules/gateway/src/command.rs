//! The commands of an operator to a record.

use aos_sdk::prelude::*;

use crate::arweave::{UploadState, UploadStatus};
use crate::events::{CommandKind, TxOutcome};
use crate::evm::{CallResult, Called};
use crate::record::{Doing, Question, Stall, State, Step};
use crate::run::Run;
use crate::studio::{Studio, Told};

impl Run<'_, '_> {
    pub fn command(&mut self, what: CommandKind, why: &str) {
        let mut said = format!("{what:?}");
        if !why.is_empty() {
            said.push_str(&format!(" ({why})"));
        }
        self.note(&said);
        match what {
            CommandKind::Reconcile if self.has_ended() => self.look_for_drift(),
            _ if self.has_ended() => self.note("the record has ended: unchanged"),
            CommandKind::Park if self.is_parked() => self.note("it is parked already"),
            CommandKind::Park => self.park(if why.is_empty() { "by command" } else { why }),
            CommandKind::Resume if self.record.state == State::Stalled => self.resume(),
            CommandKind::Resume => self.note("it is running already"),
            CommandKind::Cancel => self.cancel(),
            CommandKind::Reconcile => self.reconcile(),
        }
    }

    fn resume(&mut self) {
        self.unpark();
        self.note("resumed");
        self.perform();
    }

    /// End before the next step. A transaction that is on its way is awaited: the one that lands decides.
    fn cancel(&mut self) {
        self.record.is_canceling = true;
        if self.record.at_lane.is_some() {
            self.withdraw();
            self.unpark();
            self.note("waiting for the lane to withdraw the transaction");
            return;
        }
        match (&self.record.doing, &self.record.settled) {
            (Doing::AwaitingTx { .. }, Some(_)) => self.resume(),
            (Doing::Verifying { .. }, _) if self.record.state == State::Stalled => self.resume(),
            (Doing::Verifying { .. }, _) => self.note("its transaction has landed"),
            _ => self.fail("CANCELED", "the record was canceled"),
        }
    }

    fn reconcile(&mut self) {
        match &self.record.stall {
            None => self.note("it reads the chain already"),
            Some(Stall::Auto { .. }) => self.resume(),
            Some(Stall::Parked { .. }) => self.reconcile_parked(),
        }
    }

    /// Continue if the chain says that the current step is done; otherwise stay parked.
    fn reconcile_parked(&mut self) {
        if self.record.is_reconciling {
            self.note("it reads the chain already");
            return;
        }
        match (&self.record.doing, &self.record.settled) {
            (_, Some(TxOutcome::Confirmed { .. } | TxOutcome::Done { .. })) => self.resume(),
            (Doing::Verifying { .. }, _) => self.resume(),
            (Doing::AwaitingArweave | Doing::Uploading | Doing::PricingUpload, _)
                if self.record.posted.is_some() =>
            {
                self.record.is_reconciling = true;
                self.look_at_arweave();
            }
            (Doing::Checking(_) | Doing::AwaitingTx { .. }, _) => {
                self.record.is_reconciling = true;
                self.call(Question::Done, self.at_depth());
            }
            _ => self.note("nothing of this step is outside yet: still parked"),
        }
    }

    /// The answer of Arweave about a parked record.
    pub fn reconciled_upload(&mut self, status: UploadStatus) {
        self.record.is_reconciling = false;
        match status.fate {
            UploadState::Confirmed { .. } => {
                self.unpark();
                self.looked_at_arweave(status);
            }
            _ => self.note("the upload is not confirmed: still parked"),
        }
    }

    /// The answer of the chain about a parked record.
    pub fn reconciled(&mut self, called: &Called) {
        self.record.is_reconciling = false;
        if self.told_by(called) != Told::Done {
            self.note("not done at depth: still parked");
            return;
        }
        self.note("done at depth");
        self.unpark();
        match self.record.settled.take() {
            // The lane's request will settle by the same transaction: its hash comes with that.
            _ if self.record.at_lane.is_some() => {}
            Some(landed @ TxOutcome::Confirmed { .. }) => self.take_outcome(landed),
            _ => {
                self.record.step = self.submit_step();
                self.ask(Question::Done);
            }
        }
    }

    fn told_by(&self, called: &Called) -> Told {
        match &called.result {
            CallResult::Returned(returned) => {
                Studio::of(self.record).told(self.submit_step(), returned)
            }
            CallResult::Reverted(_) => Told::Unknown,
        }
    }

    // Drift: what the chain says otherwise after the end.

    fn look_for_drift(&mut self) {
        if self.record.open.is_some() {
            self.note("it reads the chain already");
            return;
        }
        if self.record.error.as_ref().is_some_and(|error| error.code == "INVALID_INPUT") {
            self.note("its input is invalid: there is nothing to compare");
            return;
        }
        self.record.is_reconciling = true;
        self.call(Question::Done, self.at_depth());
    }

    pub fn drifted(&mut self, called: &Called) {
        self.record.is_reconciling = false;
        let step = self.submit_step();
        let told = self.told_by(called);
        if told == Told::Unknown {
            self.note("no Studio contract answers: unchanged");
            return;
        }
        let is_done = told == Told::Done;
        let is_sent = !matches!(step, Step::UploadEvidence | Step::AwaitArweaveConfirm);
        let (name, block) = (step.name(), called.block);
        self.record.drift = match self.record.state {
            State::Completed if !is_done => {
                Some(format!("completed, and at block {block} the contract does not have {name}"))
            }
            State::Failed if is_done && is_sent => {
                Some(format!("failed, and at block {block} the contract has {name}"))
            }
            _ => None,
        };
        let said = self.record.drift.clone();
        self.note(said.as_deref().unwrap_or("the chain agrees"));
    }
}
