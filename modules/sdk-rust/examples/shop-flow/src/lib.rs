//! `shop/order@1` of `examples/shop` as a flow: an order is charged, then every item is shipped on
//! its own, and it is done when the last parcel is on its way, or a day has passed. A customer who
//! cancels before that gets the money back. `shop/basket@1` closes several orders together: it calls
//! the flow of each.

#![no_std]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

const PATIENCE: Duration = Duration::days(1);

/// A customer orders.
#[derive(Schema, Clone)]
#[schema("shop/Placed@1")]
pub struct Placed {
    pub order_id: String,
    pub skus: Set<String>,
    pub cents: u64,
}

/// The customer does not want it any more.
#[derive(Schema)]
#[schema("shop/Cancel@1")]
pub struct Cancel {
    pub order_id: String,
    pub reason: String,
}

#[derive(Schema)]
#[schema("shop/Closed@1")]
pub struct Closed {
    pub order_id: String,
    pub parcels: Map<String, String>,
    pub missing: Vec<String>,
}

/// Take the money.
#[derive(Effect)]
#[effect("shop/card.charge@1", receipt = Charged, executor = "shop", timeout_ms = 1000)]
pub struct Charge {
    pub order_id: String,
    pub cents: u64,
}

#[derive(Schema)]
#[schema("shop/Charged@1")]
pub struct Charged {
    pub charge: String,
}

/// Give the money back.
#[derive(Effect)]
#[effect("shop/card.refund@1", receipt = Refunded, executor = "shop", timeout_ms = 1000)]
pub struct Refund {
    pub charge: String,
}

#[derive(Schema)]
#[schema("shop/Refunded@1")]
pub struct Refunded {
    pub refund: String,
}

#[derive(Effect)]
#[effect("shop/parcel.ship@1", receipt = Shipped, executor = "shop", timeout_ms = 60000)]
pub struct Ship {
    pub order_id: String,
    pub sku: String,
}

#[derive(Schema)]
#[schema("shop/Shipped@1")]
pub struct Shipped {
    pub parcel: String,
}

/// How far an order is.
#[derive(Schema)]
#[schema("shop/Progress@1")]
pub enum Progress {
    Charging,
    Shipping { parcels: u64 },
}

#[flow(
    "shop/order@1",
    key = "shop/OrderId@1",
    start(Placed by "order_id"),
    listens(Cancel by "order_id"),
    effects(Charge, Refund, Ship),
    view = Progress,
    callable
)]
async fn order(cx: Cx, placed: Placed) -> Result<Closed, FlowError> {
    cx.publish(Progress::Charging);
    cx.step("charge", Charge { order_id: placed.order_id.clone(), cents: placed.cents })
        .rollback(|charged| Refund { charge: charged.charge.clone() })
        .await?;

    cx.publish(Progress::Shipping { parcels: placed.skus.len() as u64 });
    let shipped = branch("ship", async || ship(cx, &placed).await);
    let canceled = branch("cancel", async || {
        let cancel = cx.listen::<Cancel>("asked").await?;
        Err(FlowError::rollback("canceled", cancel.reason))
    });
    let won = cx.race("ship-or-cancel", [shipped, canceled]).await?;
    Ok(won.value)
}

/// Ship every item on its own. One that takes longer than a day is missing.
async fn ship(cx: Cx, placed: &Placed) -> Result<Closed, FlowError> {
    let order_id = &placed.order_id;
    let parcels = placed.skus.iter().map(|sku| {
        branch(sku, async move || {
            let ship = Ship { order_id: order_id.clone(), sku: sku.clone() };
            match cx.step("ship", ship).timeout(PATIENCE).await {
                Ok(shipped) => Ok(Some(shipped.parcel)),
                Err(error) => {
                    log!(cx, "{sku} is missing: {}", error.code());
                    Ok(None)
                }
            }
        })
    });
    let parcels = cx.join_all("parcels", parcels).await?;

    let mut closed =
        Closed { order_id: order_id.clone(), parcels: Map::new(), missing: Vec::new() };
    for (sku, parcel) in placed.skus.iter().zip(parcels) {
        match parcel {
            Some(parcel) => drop(closed.parcels.insert(sku.clone(), parcel)),
            None => closed.missing.push(sku.clone()),
        }
    }
    Ok(closed)
}

/// A customer orders in several shops.
#[derive(Schema)]
#[schema("shop/Filled@1")]
pub struct Filled {
    pub basket_id: String,
    pub orders: Vec<Placed>,
}

#[flow("shop/basket@1", key = "shop/BasketId@1", start(Filled by "basket_id"), calls(Order))]
async fn basket(cx: Cx, filled: Filled) -> Result<Vec<Closed>, FlowError> {
    let orders = filled.orders.iter().map(|order| {
        branch(&order.order_id, async move || cx.call::<Order>("order", order.clone()).await)
    });
    cx.join_all("orders", orders).await
}
