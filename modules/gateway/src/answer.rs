//! The answers to a record's effects: by reference, and then by what the record does.

use aos_sdk::prelude::*;

use crate::arweave::UploadStatus;
use crate::evm::Called;
use crate::record::{Doing, Pause, Stall, State};
use crate::run::Run;

impl Run<'_, '_> {
    /// The answer to an effect, if it is the one that is open.
    pub fn answer(&mut self, answer: &impl Continuation) -> Result<(), Fault> {
        if self.record.open.is_none() || answer.issuer_ref() != self.record.open.as_deref() {
            self.note("an answer that no one waits for: ignored");
            return Ok(());
        }
        self.record.open = None;
        if let Some(pause) = self.record.pause.take() {
            self.woke(pause);
            return Ok(());
        }
        if self.has_ended() || self.is_parked() {
            return self.answer_to_reconciliation(answer);
        }
        match self.record.doing.clone() {
            Doing::StoringEvidence => self.take(answer, Self::stored),
            Doing::PricingUpload => self.take(answer, Self::priced),
            Doing::Uploading => self.take(answer, Self::uploaded),
            Doing::AwaitingArweave => self.take(answer, Self::looked_at_arweave),
            Doing::Checking(question) => {
                self.take(answer, |run, called: Called| run.answered(question, called))
            }
            Doing::Verifying { hash, block } => {
                self.take(answer, |run, called: Called| run.verified(hash, block, called))
            }
            Doing::AwaitingTx { .. } | Doing::Nothing => Ok(()),
        }
    }

    /// Any end of a timer is its end: the step continues as if it had fired.
    fn woke(&mut self, pause: Pause) {
        self.note(match pause {
            Pause::Retry => "the pause is over",
            Pause::Stall => "the stall is over",
            Pause::Window => "the window is open",
            Pause::LaneFull => "trying the lane again",
        });
        if matches!(self.record.stall, Some(Stall::Auto { .. })) {
            self.record.stall = None;
            self.record.state = State::Running;
        }
        self.perform();
    }

    fn answer_to_reconciliation(&mut self, answer: &impl Continuation) -> Result<(), Fault> {
        let is_upload = matches!(
            self.record.doing,
            Doing::PricingUpload | Doing::Uploading | Doing::AwaitingArweave
        );
        if is_upload {
            match answer.outcome::<UploadStatus>()? {
                Outcome::Ok(status) => self.reconciled_upload(status),
                _ => self.could_not_read(),
            }
            return Ok(());
        }
        match answer.outcome::<Called>()? {
            Outcome::Ok(called) if self.has_ended() => self.drifted(&called),
            Outcome::Ok(called) => self.reconciled(&called),
            _ => self.could_not_read(),
        }
        Ok(())
    }

    fn could_not_read(&mut self) {
        self.record.is_reconciling = false;
        self.note("no answer: unchanged");
    }

    fn take<R: Named>(
        &mut self,
        answer: &impl Continuation,
        then: impl FnOnce(&mut Self, R),
    ) -> Result<(), Fault> {
        match answer.outcome::<R>()? {
            Outcome::Ok(receipt) => then(self, receipt),
            Outcome::Error(error) => self.failed(&error),
            Outcome::Timeout => self.retry("TIMED_OUT", "the effect had no answer in time"),
            Outcome::Canceled => self.park("its effect was canceled by an operator"),
            Outcome::Rejected(rejection) => self.retry("UNAVAILABLE", &rejection.message),
        }
        Ok(())
    }

    /// An error means that nothing is known, except where the request itself is invalid.
    fn failed(&mut self, error: &EffectError) {
        let is_arweave = matches!(
            self.record.doing,
            Doing::PricingUpload | Doing::Uploading | Doing::AwaitingArweave
        );
        let message = error.message.as_str();
        match error.code.as_str() {
            "evm_bad_request" | "arweave_bad_request" => self.fail("INVALID_INPUT", message),
            "wrong_chain" => self.retry("WRONG_CHAIN", message),
            "block_unknown" => self.retry("BLOCK_UNKNOWN", message),
            "blob_missing" | "blob_too_large" => self.park(message),
            _ if matches!(self.record.doing, Doing::StoringEvidence) => {
                self.retry("STORE_FAILED", message);
            }
            _ if is_arweave => self.retry("ARWEAVE_UNAVAILABLE", message),
            _ => self.retry("NODE_UNAVAILABLE", message),
        }
    }
}
