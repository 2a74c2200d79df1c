//! `bench/keeper@1`: what its cell was given last, and how often it was given something.

use aos_abi::read::Record;
use aos_abi::{Fault, Input, Output, Status, Value};

pub fn step(input: Input) -> Result<Output, Fault> {
    let before = match &input.state {
        Some(state) => Record::new(state)?.nat("count")?,
        None => 0,
    };
    let note = Record::new(&input.event.value)?.text("note")?;
    Ok(Output {
        state: Some(Value::record([
            ("count", Value::from(before + 1)),
            ("note", Value::from(note)),
        ])),
        status: Some(Status::Running),
        ..Output::default()
    })
}
