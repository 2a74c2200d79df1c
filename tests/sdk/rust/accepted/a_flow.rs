#![no_std]
#![deny(warnings)]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("t/Placed@1")]
struct Placed {
    order: OrderId,
}

#[derive(Schema)]
#[schema("t/OrderId@1")]
struct OrderId(u64);

#[derive(Schema)]
#[schema("t/Cancel@1")]
struct Cancel {
    order: OrderId,
}

#[derive(Schema)]
#[schema("t/Progress@1")]
struct Progress {
    parcels: u64,
}

#[derive(Schema)]
#[schema("t/Note@1")]
struct Note {
    text: String,
}

/// An order, with everything that the attribute takes.
#[flow(
    "t/order@1",
    key = OrderId,
    start(Placed by "order"),
    listens(Cancel by "order" creates = false),
    effects(timer::Set, http::Request),
    view = Progress,
    callable,
    annotations = Note,
    limits(effects = 100, keys = 32, fuel = 1_000_000),
    upgrade = "in_place",
    name = OrderFlow,
    module = "t/orders@1",
    entrypoint = "order_flow"
)]
async fn order(_: Cx, placed: Placed) -> Result<OrderId, FlowError> {
    Ok(placed.order)
}

/// As little as it takes, and a flow that it calls.
#[flow("t/basket@2", key = "t/BasketId@1", start(Basket by "id"), calls(OrderFlow), name = BasketFlow)]
async fn basket(_: Cx, basket: Basket) -> Result<String, FlowError> {
    Ok(basket.id)
}

#[derive(Schema)]
#[schema("t/Basket@1")]
struct Basket {
    id: String,
}

pub fn names() -> [Option<&'static str>; 6] {
    use aos_sdk::flow::{Callable, Flow};
    [
        Some(<OrderFlow as Callable>::CALL),
        OrderFlow::OUTPUT,
        OrderFlow::VIEW,
        OrderFlow::LISTENS.first().copied(),
        BasketFlow::RETURN,
        BasketFlow::OUTPUT,
    ]
}
