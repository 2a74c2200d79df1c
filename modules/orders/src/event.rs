//! `shop/OrderEvent@1` -> what it means for an order.

use alloc::string::String;

use aos_abi::read::{arm, Record};
use aos_abi::{decode, Fault, Value};

use crate::action::{Action, ACTIONS};
use crate::state::Outcome;

pub enum Event<'a> {
    Placed(Placed<'a>),
    /// The customer asked for it, or the deadline passed.
    Stop(Outcome),
    /// Attempt `attempt` of `action` has ended.
    Answered {
        action: Action,
        attempt: u64,
        answer: Answer,
    },
    /// The wait after attempt `attempt` is over.
    Waited {
        action: Action,
        attempt: u64,
    },
}

pub struct Placed<'a> {
    pub order_id: &'a str,
    pub customer_id: &'a str,
    pub items: &'a Value,
    pub patience_ns: u64,
}

pub enum Answer {
    /// It was done; the receipt.
    Done(Value),
    /// It was not done and never will be.
    Refused { code: String, outcome: Outcome },
    /// It may have been done. `lasting`: the executor sees no use in asking again.
    Unclear { code: String, lasting: bool },
}

impl<'a> Event<'a> {
    pub fn read(value: &'a Value) -> Result<Event<'a>, Fault> {
        let (tag, inside) = arm(value)?;
        let record = Record::new(inside)?;
        match tag {
            "Placed" => Ok(Event::Placed(Placed {
                order_id: record.text("order_id")?,
                customer_id: record.text("customer_id")?,
                items: record.get("items"),
                patience_ns: record.nat("patience").unwrap_or(0),
            })),
            "CancelRequested" => Ok(Event::Stop(Outcome::Cancelled)),
            "Overdue" => Ok(Event::Stop(Outcome::Overdue)),
            "Receipt" | "Rejected" => continuation(tag, &record),
            _ => Err(Fault::new(
                "unknown_arm",
                alloc::format!("this module knows no event arm {tag}"),
            )),
        }
    }
}

fn continuation<'a>(tag: &str, record: &Record) -> Result<Event<'a>, Fault> {
    let reference = record.text("issuer_ref")?;
    let (action, attempt, waited) = referred(reference).ok_or_else(|| {
        Fault::new("unknown_reference", alloc::format!("this module asked for no {reference}"))
    })?;
    // A timer that could not be set is a wait that is over: what follows is the same retry.
    if waited {
        return Ok(Event::Waited { action, attempt });
    }
    let answer = match tag {
        "Receipt" => answer(action, record)?,
        _ => Answer::Unclear { code: String::from(record.text("error_code")?), lasting: false },
    };
    Ok(Event::Answered { action, attempt, answer })
}

/// `charge/2` and `charge/2/retry`, as `Action::reference` writes them.
fn referred(reference: &str) -> Option<(Action, u64, bool)> {
    let (name, rest) = reference.split_once('/')?;
    let action = ACTIONS.into_iter().find(|action| action.name() == name)?;
    let (attempt, waited) = match rest.strip_suffix("/retry") {
        Some(attempt) => (attempt, true),
        None => (rest, false),
    };
    Some((action, attempt.parse().ok()?, waited))
}

fn answer(action: Action, record: &Record) -> Result<Answer, Fault> {
    let status = record.text("status")?;
    if status == "ok" {
        return Ok(Answer::Done(decode(record.bytes("receipt_payload")?)?));
    }
    if status != "error" || record.optional_text("payload_schema") != Some("sys/EffectError@1") {
        return Ok(Answer::Unclear { code: String::from(status), lasting: false });
    }
    let error = decode(record.bytes("receipt_payload")?)?;
    let error = Record::new(&error)?;
    let code = String::from(error.text("code")?);
    let lasting = *error.get("retryable") == Value::Bool(false);
    Ok(match action.refusal(&code) {
        Some(outcome) if lasting => Answer::Refused { code, outcome },
        _ => Answer::Unclear { code, lasting },
    })
}
