//! A receipt or a rejection -> what it means for an order.

use aos_sdk::prelude::*;

use crate::action::Action;
use crate::effects::{CardChargeReceipt, CardRefundReceipt};
use crate::shop::Outcome;

pub enum Reply {
    /// Attempt `attempt` of `action` has ended.
    Answered { action: Action, attempt: u64, answer: Answer },
    /// The pause after attempt `attempt` of `action` is over.
    Waited { action: Action, attempt: u64 },
}

pub enum Answer {
    /// The action was done. `cents` is the amount that a charge or a refund moved, otherwise 0.
    Done { cents: u64 },
    /// The action was not done and never will be.
    Refused { code: String, outcome: Outcome },
    /// The action may have been done. `is_final`: the executor expects nothing from a retry.
    Unclear { code: String, is_final: bool },
}

impl Reply {
    pub fn of_receipt(receipt: &Receipt) -> Result<Reply, Fault> {
        Reply::read(receipt.issuer_ref.as_deref(), |action| Answer::of_receipt(action, receipt))
    }

    pub fn of_rejection(rejected: &Rejected) -> Result<Reply, Fault> {
        let code = rejected.error_code.clone();
        Reply::read(rejected.issuer_ref.as_deref(), |_| {
            Ok(Answer::Unclear { code, is_final: false })
        })
    }

    fn read(
        reference: Option<&str>,
        answer: impl FnOnce(Action) -> Result<Answer, Fault>,
    ) -> Result<Reply, Fault> {
        let reference = reference.unwrap_or("");
        let Some((action, attempt, is_timer)) = referred(reference) else {
            let message = format!("this module asked for no {reference}");
            return Err(Fault::new("unknown_reference", message));
        };
        // A timer that could not be set counts as a pause that is over: the retry follows anyway.
        Ok(match is_timer {
            true => Reply::Waited { action, attempt },
            false => Reply::Answered { action, attempt, answer: answer(action)? },
        })
    }
}

/// Reads `charge/2` and `charge/2/retry`, as `Action::reference` and the timers write them.
fn referred(reference: &str) -> Option<(Action, u64, bool)> {
    let (name, rest) = reference.split_once('/')?;
    let (attempt, is_timer) = match rest.strip_suffix("/retry") {
        Some(attempt) => (attempt, true),
        None => (rest, false),
    };
    Some((Action::named(name)?, attempt.parse().ok()?, is_timer))
}

impl Answer {
    fn of_receipt(action: Action, receipt: &Receipt) -> Result<Answer, Fault> {
        let is_error = receipt.payload_schema.as_deref() == Some(EffectError::NAME);
        match receipt.status.as_str() {
            "ok" => Ok(Answer::Done { cents: moved_cents(action, receipt)? }),
            "error" if is_error => Ok(Answer::of_error(action, receipt.payload()?)),
            status => Ok(Answer::Unclear { code: status.into(), is_final: false }),
        }
    }

    fn of_error(action: Action, error: EffectError) -> Answer {
        let EffectError { code, retryable, .. } = error;
        match action.refusal(&code) {
            Some(outcome) if !retryable => Answer::Refused { code, outcome },
            _ => Answer::Unclear { code, is_final: !retryable },
        }
    }
}

fn moved_cents(action: Action, receipt: &Receipt) -> Result<u64, Fault> {
    Ok(match action {
        Action::Charge => receipt.payload::<CardChargeReceipt>()?.amount_cents,
        Action::Refund => receipt.payload::<CardRefundReceipt>()?.refunded_cents,
        Action::Reserve | Action::Ship | Action::Release => 0,
    })
}
