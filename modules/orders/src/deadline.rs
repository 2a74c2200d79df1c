//! `shop/deadline@1`: a cell that lives from `OrderAccepted` until the order is closed or its time
//! is up.
//!
//! Deleting the cell takes its timer with it, so a closed order leaves nothing open behind.

use alloc::vec;

use aos_abi::read::{arm, Record};
use aos_abi::{Effect, Fault, Input, Output, Status, Value};

pub fn step(input: Input) -> Result<Output, Fault> {
    let now_ns = input.now_ns()?;
    let (tag, inside) = arm(&input.event.value)?;
    match (tag, &input.state) {
        ("Accepted", None) => {
            let accepted = Record::new(inside)?;
            watch(accepted.text("order_id")?, accepted.nat("deadline")?)
        }
        ("Accepted", Some(_)) => Ok(Output { state: input.state, ..Output::default() }),
        ("Receipt" | "Rejected", Some(state)) => {
            let state = Record::new(state)?;
            let (order_id, deadline_ns) = (state.text("order_id")?, state.nat("deadline")?);
            // The timer itself may have failed. The clock decides.
            if now_ns < deadline_ns {
                return watch(order_id, deadline_ns);
            }
            let overdue = Value::record([("order_id", Value::from(order_id))]);
            Ok(Output { events: vec![("shop/OrderOverdue@1", overdue)], ..Output::default() })
        }
        _ => Ok(Output::default()),
    }
}

fn watch(order_id: &str, deadline_ns: u64) -> Result<Output, Fault> {
    let (id, deadline) = (Value::from(order_id), Value::from(deadline_ns));
    Ok(Output {
        state: Some(Value::record([("order_id", id), ("deadline", deadline.clone())])),
        effects: vec![Effect {
            effect: "sys/timer.set@1",
            params: Value::record([("deliver_at_ns", deadline), ("key", Value::from("deadline"))]),
            idempotency_key: None,
            issuer_ref: Some("deadline".into()),
        }],
        status: Some(Status::Running),
        ..Output::default()
    })
}
