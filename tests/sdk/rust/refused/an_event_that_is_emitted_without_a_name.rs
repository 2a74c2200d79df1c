// expect: `Add` is not a schema of the manifest: it has no name

#![no_std]
#![allow(dead_code)]

use aos_sdk::prelude::*;

#[derive(Schema)]
struct Add {}

fn tell(cx: &mut Context) {
    cx.emit(Add {}); // here
}
