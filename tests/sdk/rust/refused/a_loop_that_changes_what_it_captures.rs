// first: cannot borrow `total` as mutable, as it is a captured variable in a `Fn` closure
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

async fn count(cx: Cx) -> Result<u64, FlowError> {
    let mut total = 0;
    cx.loop_("rounds", 0, async |round: u64| { // here
        total += round;
        Ok(if round < 3 { Loop::Continue(round + 1) } else { Loop::Break(()) })
    })
    .await?;
    Ok(total)
}
