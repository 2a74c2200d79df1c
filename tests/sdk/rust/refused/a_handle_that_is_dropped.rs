// expect: without its handle the answer is not found again

#![no_std]
#![allow(dead_code)]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

fn remind(cx: &mut Context) {
    cx.effect(timer::at(cx.now())).start(); // here
}
