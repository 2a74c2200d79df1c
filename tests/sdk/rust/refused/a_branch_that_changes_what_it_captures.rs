// first: cannot borrow `total` as mutable, as it is a captured variable in a `Fn` closure
// only

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

async fn count(cx: Cx) -> Result<u64, FlowError> {
    let mut total = 0;
    cx.join("both", (
        branch("one", async || { // here
            total += 1;
            Ok(())
        }),
        branch("other", async || Ok(())),
    ))
    .await?;
    Ok(total)
}
