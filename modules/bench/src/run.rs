//! One run: so many effects, each asked for when the one before it was answered.

use alloc::format;

use aos_abi::read::{arm, Record};
use aos_abi::{Effect, Fault, Value};

#[derive(Clone, Copy)]
pub struct Run {
    pub number: u64,
    pub steps: u64,
}

pub enum Event {
    Begun(Run),
    /// The effect number `step` of the run was answered.
    Answered {
        run: Run,
        step: u64,
    },
}

impl Run {
    /// From an event that begins it, or from the state of a line.
    pub fn read(value: &Value) -> Result<Run, Fault> {
        let record = Record::new(value)?;
        Ok(Run { number: record.nat("run")?, steps: record.nat("steps")? })
    }

    pub fn value(self) -> Value {
        Value::record([("run", Value::from(self.number)), ("steps", Value::from(self.steps))])
    }

    /// Ask for effect number `step`, from 1. The issuer reference brings the run back.
    pub fn ask(self, step: u64) -> Effect {
        let (run, number) = (Value::from(self.number), Value::from(step));
        Effect {
            effect: "bench/noop@1",
            params: Value::record([("run", run), ("step", number)]),
            idempotency_key: None,
            issuer_ref: Some(format!("{}/{step}/{}", self.number, self.steps)),
        }
    }
}

impl Event {
    pub fn read(value: &Value) -> Result<Event, Fault> {
        let (tag, inside) = arm(value)?;
        let record = Record::new(inside)?;
        match tag {
            "Begin" => Ok(Event::Begun(Run::read(inside)?)),
            "Receipt" if record.text("status")? == "ok" => referred(record.text("issuer_ref")?),
            _ => Err(Fault::new("bench", "the executor of the benchmarks always says ok")),
        }
    }
}

fn referred(reference: &str) -> Result<Event, Fault> {
    let mut numbers = reference.split('/').map(str::parse::<u64>);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(number)), Some(Ok(step)), Some(Ok(steps))) => {
            Ok(Event::Answered { run: Run { number, steps }, step })
        }
        _ => Err(Fault::new("bench", "this module made no such reference")),
    }
}
