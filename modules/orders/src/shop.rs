//! The names and events of the shop.

use aos_sdk::prelude::*;

#[derive(Schema, Clone, Default)]
#[schema("shop/OrderId@1")]
pub struct OrderId(pub String);

#[derive(Schema, Clone, Default)]
#[schema("shop/CustomerId@1")]
pub struct CustomerId(pub String);

#[derive(Schema, Clone)]
#[schema("shop/Item@1")]
pub struct Item {
    pub sku: String,
    pub quantity: u64,
    pub price_cents: u64,
}

/// Why an order is being undone, or how it ended.
#[derive(Schema, Clone, Copy, Debug, PartialEq)]
#[schema("shop/Outcome@1")]
pub enum Outcome {
    Shipped,
    OutOfStock,
    Declined,
    Undeliverable,
    Overdue,
    Cancelled,
    /// The stock or the payment service gave no clear answer to any attempt.
    Unavailable,
    /// There is nothing to pay, or the sum does not fit in a number.
    Invalid,
    /// An action that the workflow cannot give up was refused. A person has to look.
    Stuck,
}

/// A customer orders. When the patience is over, the order is undone, unless the parcel has been
/// requested.
#[derive(Schema)]
#[schema("shop/OrderPlaced@1")]
pub struct OrderPlaced {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub items: Vec<Item>,
    pub patience: Duration,
}

/// The customer no longer wants the order.
#[derive(Schema)]
#[schema("shop/OrderCancelRequested@1")]
pub struct OrderCancelRequested {
    pub order_id: OrderId,
}

#[derive(Schema)]
#[schema("shop/OrderAccepted@1")]
pub struct OrderAccepted {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub deadline: Time,
}

#[derive(Schema)]
#[schema("shop/OrderOverdue@1")]
pub struct OrderOverdue {
    pub order_id: OrderId,
}

#[derive(Schema)]
#[schema("shop/OrderCharged@1")]
pub struct OrderCharged {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub amount_cents: u64,
}

#[derive(Schema)]
#[schema("shop/OrderRefunded@1")]
pub struct OrderRefunded {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub amount_cents: u64,
}

#[derive(Schema)]
#[schema("shop/OrderShipped@1")]
pub struct OrderShipped {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub value_cents: u64,
}

#[derive(Schema)]
#[schema("shop/OrderClosed@1")]
pub struct OrderClosed {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub outcome: Outcome,
}

/// One line in the record of each step: the step's decision.
#[derive(Schema)]
#[schema("shop/Note@1")]
pub struct Note(pub String);
