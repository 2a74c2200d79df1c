// expect: nothing is asked before `.start()` or `.forget()`

#![no_std]
#![allow(dead_code)]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

fn remind(cx: &mut Context) {
    cx.effect(timer::at(cx.now())); // here
}
