//! `bench/counter@1` with the Rust SDK: the sum of what its cell was given.

#![no_std]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("bench/Add@1")]
pub struct Add {
    pub key: String,
    pub by: u64,
    pub item: u64,
}

#[derive(Schema, Default)]
#[schema("bench/Sum@1")]
pub struct Sum(u64);

#[workflow("bench/counter@1", key = "bench/Key@1", routes(Add by "key"), module = "bench/counter.module@1")]
fn counter(sum: &mut Sum, add: Add, cx: &mut Context) -> Result<(), Fault> {
    sum.0 = sum.0.checked_add(add.by).ok_or_else(|| Fault::new("overflow", "the sum is full"))?;
    cx.status(Status::Running);
    Ok(())
}
