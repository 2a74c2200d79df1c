// expect: cannot be shared between threads safely
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

use core::cell::Cell;

async fn count(cx: Cx) -> Result<u64, FlowError> {
    let total = Cell::new(0);
    cx.step("set", timer::at(Time::from_ns(0)))
        .rollback(|_| { // here
            total.set(1);
            timer::at(Time::from_ns(0))
        })
        .await?;
    Ok(total.get())
}
