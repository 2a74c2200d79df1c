//! `shop/order@1`, one order from stock to parcel or undone, and `shop/deadline@1`, the clock
//! beside it.
//!
//! `event` (what came in) ▸ `order` (state, event -> state, asked effects, emitted events) ▸
//! `outbox` (output). `action` is the table of the five external actions and of what each may
//! answer.

#![no_std]

extern crate alloc;

mod action;
mod deadline;
mod event;
mod order;
mod outbox;
mod state;

aos_abi::workflow!(order, order::step);
aos_abi::workflow!(deadline, deadline::step);
