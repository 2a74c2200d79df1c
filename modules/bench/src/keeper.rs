//! `bench/keeper@1`: keeps the last note that its cell received, and counts all of them.

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
