//! `shop/order@1` takes an order from stock to parcel, or undoes it. `shop/deadline@1` is the timer
//! that belongs to it.
//!
//! `order` has the rules. `state` is what a cell keeps, `action` the table of the five external
//! actions, `answer` reads what comes back from them, `requests` is what a step sends out. `shop`
//! and `effects` are the schemas that others share with this module; the build makes the manifest's
//! AIR from all of these types.

#![no_std]

mod action;
mod answer;
mod deadline;
mod effects;
mod order;
mod requests;
mod shop;
mod state;
