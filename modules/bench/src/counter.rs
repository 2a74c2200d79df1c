//! `bench/counter@1`: the sum of what its cell was given.

use aos_abi::read::{nat, Record};
use aos_abi::{Fault, Input, Output, Status, Value};

pub fn step(input: Input) -> Result<Output, Fault> {
    let before = input.state.as_ref().and_then(nat).unwrap_or(0);
    let by = Record::new(&input.event.value)?.nat("by")?;
    let sum = before.checked_add(by).ok_or_else(|| Fault::new("overflow", "the sum is full"))?;
    Ok(Output { state: Some(Value::from(sum)), status: Some(Status::Running), ..Output::default() })
}
