//! Mail: the arms of a flow's event (`spec/flow.md`, FL-3).

use crate::cbor::{Reader, Stop};
use crate::fault::Fault;
use crate::schema::whole;
use crate::sys;

use super::engine::Facts;
use super::history::Bytes;
use super::state::{Parent, optional};

pub(super) enum Mail {
    Start(Bytes),
    /// The input, and where the result goes.
    Call(Bytes, Parent),
    /// From an operator, or from the call that `parent` names.
    Cancel {
        rollback: bool,
        parent: Option<Parent>,
    },
    Resume {
        skip: bool,
    },
    Continue,
    /// The issuer reference, and the answer.
    Answer(&'static str, Answer),
    Return(Return),
    /// A message of this schema.
    Message(&'static str, Bytes),
    /// A receipt of a request without a reference.
    Nothing,
}

/// How an effect ended.
pub(super) enum Answer {
    Ok(Bytes),
    Error { code: &'static str, message: &'static str, retryable: bool },
    Timeout { message: &'static str },
    Canceled { message: &'static str },
    Rejected { code: &'static str, message: &'static str },
}

/// The result of a child flow: a value, or a stored failure.
pub(super) struct Return {
    pub path: &'static str,
    pub attempt: u64,
    pub result: Result<Bytes, Bytes>,
}

impl Mail {
    pub fn read(facts: &Facts, event: Bytes) -> Result<Mail, Fault> {
        let read = whole(event, |from| Mail::read_from(facts, from));
        read.map_err(|misfit| Fault::input("event", misfit))
    }

    fn read_from(facts: &Facts, from: &mut Reader<'static>) -> Result<Mail, Stop> {
        let (arm, _) = from.arm()?;
        match arm {
            "Start" => from.item().map(Mail::Start),
            "Control" => control(from),
            "Receipt" | "Rejected" => answer(from),
            "Call" => {
                from.record(2)?;
                from.field(b"\x65input")?;
                let input = from.item()?;
                from.field(b"\x65reply")?;
                Ok(Mail::Call(input, Parent::read(from)?))
            }
            "Return" => returned(from).map(Mail::Return),
            arm => match listened(facts, arm) {
                Some(schema) => Ok(Mail::Message(schema, from.item()?)),
                None => Err(from.stop("an arm of a flow's event before here")),
            },
        }
    }
}

/// The schema of the arm `M<n>`.
fn listened(facts: &Facts, arm: &str) -> Option<&'static str> {
    let number = super::path::number(arm.as_bytes().strip_prefix(b"M")?)?;
    facts.listens.get(number as usize).copied()
}

fn control(from: &mut Reader<'static>) -> Result<Mail, Stop> {
    from.record(2)?;
    from.field(b"\x67command")?;
    let mail = match from.arm()?.0 {
        "Cancel" => {
            // A manifest from before calls had names lacks the parent (FL-65).
            let names_parent = from.map()? == 2;
            let parent = match names_parent {
                true => {
                    from.field(b"\x66parent")?;
                    optional(from, Parent::read)?
                }
                false => None,
            };
            from.field(b"\x68rollback")?;
            Mail::Cancel { rollback: from.bool()?, parent }
        }
        "Resume" => {
            from.record(1)?;
            from.field(b"\x64skip")?;
            Mail::Resume { skip: from.bool()? }
        }
        "Continue" => Mail::Continue,
        _ => return Err(from.stop("Cancel, Resume or Continue before here")),
    };
    from.field(b"\x68instance")?;
    from.item()?;
    Ok(mail)
}

/// `sys/EffectReceiptEnvelope@1` or `sys/EffectReceiptRejected@1`: the fields that count here.
fn answer(from: &mut Reader<'static>) -> Result<Mail, Stop> {
    let (mut reference, mut status, mut payload, mut schema) = (None, "", &b""[..], None);
    let mut rejected = None;
    let mut code = "";
    for _ in 0..from.map()? {
        match from.text()? {
            "issuer_ref" => reference = optional(from, Reader::text)?,
            "status" => status = from.text()?,
            "receipt_payload" => payload = from.bytes()?,
            "payload_schema" => schema = optional(from, Reader::text)?,
            "error_code" => code = from.text()?,
            "error_message" => rejected = Some(from.text()?),
            _ => drop(from.item()?),
        }
    }
    let Some(reference) = reference else { return Ok(Mail::Nothing) };
    let answer = match (rejected, status) {
        (Some(message), _) => Answer::Rejected { code, message },
        (None, "ok") => Answer::Ok(payload),
        (None, status) => {
            let error = match schema {
                Some(sys::ERROR) => whole(payload, error).ok(),
                _ => None,
            };
            // An executor may send a receipt with another status, too: `spec/sdk.md`, SD-23.
            let (code, message, retryable) = error.unwrap_or(("receipt", "", false));
            match status {
                "timeout" => Answer::Timeout { message },
                "canceled" => Answer::Canceled { message },
                _ => Answer::Error { code, message, retryable },
            }
        }
    };
    Ok(Mail::Answer(reference, answer))
}

fn error(from: &mut Reader<'static>) -> Result<(&'static str, &'static str, bool), Stop> {
    from.record(3)?;
    from.field(b"\x64code")?;
    let code = from.text()?;
    from.field(b"\x67message")?;
    let message = from.text()?;
    from.field(b"\x69retryable")?;
    Ok((code, message, from.bool()?))
}

fn returned(from: &mut Reader<'static>) -> Result<Return, Stop> {
    from.record(4)?;
    from.field(b"\x64path")?;
    let path = from.text()?;
    from.field(b"\x66result")?;
    let result = match from.arm()?.0 {
        "Ok" => Ok(from.bytes()?),
        "Failed" => Err(from.bytes()?),
        _ => return Err(from.stop("Ok or Failed before here")),
    };
    from.field(b"\x67attempt")?;
    let attempt = from.nat()?;
    from.field(b"\x68instance")?;
    from.item()?;
    Ok(Return { path, attempt, result })
}
