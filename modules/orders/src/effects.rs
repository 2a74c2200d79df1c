//! The five effects that the shop's executor performs, with their receipts.

use aos_sdk::prelude::*;

use crate::shop::{CustomerId, Item, OrderId};

#[derive(Effect)]
#[effect(
    "shop/stock.reserve@1",
    receipt = StockReserveReceipt,
    executor = "shop",
    timeout_ms = 1000
)]
pub struct StockReserve {
    pub order_id: OrderId,
    pub items: Vec<Item>,
}

#[derive(Schema)]
#[schema("shop/StockReserveReceipt@1")]
pub struct StockReserveReceipt {
    pub reservation: String,
}

#[derive(Effect)]
#[effect(
    "shop/stock.release@1",
    receipt = StockReleaseReceipt,
    executor = "shop",
    timeout_ms = 1000
)]
pub struct StockRelease {
    pub order_id: OrderId,
}

#[derive(Schema)]
#[schema("shop/StockReleaseReceipt@1")]
pub struct StockReleaseReceipt {
    pub released: bool,
}

#[derive(Effect)]
#[effect("shop/card.charge@1", receipt = CardChargeReceipt, executor = "shop", timeout_ms = 1000)]
pub struct CardCharge {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub amount_cents: u64,
}

#[derive(Schema)]
#[schema("shop/CardChargeReceipt@1")]
pub struct CardChargeReceipt {
    pub charge: String,
    pub amount_cents: u64,
}

#[derive(Effect)]
#[effect("shop/card.refund@1", receipt = CardRefundReceipt, executor = "shop", timeout_ms = 1000)]
pub struct CardRefund {
    pub order_id: OrderId,
}

#[derive(Schema)]
#[schema("shop/CardRefundReceipt@1")]
pub struct CardRefundReceipt {
    pub refunded_cents: u64,
}

#[derive(Effect)]
#[effect("shop/parcel.ship@1", receipt = ParcelShipReceipt, executor = "shop", timeout_ms = 1000)]
pub struct ParcelShip {
    pub order_id: OrderId,
    pub items: Vec<Item>,
    pub value_cents: u64,
}

#[derive(Schema)]
#[schema("shop/ParcelShipReceipt@1")]
pub struct ParcelShipReceipt {
    pub parcel: String,
}
