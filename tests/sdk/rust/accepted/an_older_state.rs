#![no_std]
#![deny(warnings)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/State@1")]
pub struct Old {
    pub total: u64,
}

#[derive(Schema, Default)]
#[schema("t/State@2")]
pub struct State {
    pub total: Decimal,
}

#[derive(Schema)]
#[schema("t/Add@1")]
pub struct Add {
    pub by: u64,
}

#[workflow(
    "t/count@1",
    key = "t/Number@1" as u64,
    routes(Add by "by"),
    upgrade = "in_place",
    lifecycle = "explicit",
    migrate(from = Old, by = renew)
)]
pub fn count(state: &mut State, add: Add, cx: &mut Context) -> Result<(), Fault> {
    let _number: u64 = cx.key()?;
    log!(cx, "added {}", add.by);
    let total = state.total.checked_add(Decimal::from(add.by));
    state.total = total.ok_or_else(|| Fault::new("full", "there is no greater number"))?;
    Ok(())
}

pub fn renew(old: Old) -> Result<State, Fault> {
    Ok(State { total: Decimal::from(old.total) })
}
