//! One order: it is charged, then shipped unless the customer cancels first, and a month later the
//! customer is asked for a review. An order that fails or is canceled gets its money back.
//!
//! The function is a flow. The process may be killed at any line: the flow continues where it was,
//! with the results that it had, and no effect is requested twice.

#![no_std]
#![deny(unused_must_use)] // an operation without `.await` does nothing

use aos_sdk::prelude::*;

const BANK: Retry = Retry::attempts(4).pauses(Duration::seconds(1), Duration::minutes(1));
const WAREHOUSE: Retry = Retry::attempts(1000).pauses(Duration::minutes(1), Duration::hours(1));

/// A customer's order. To send one: `aos flow start order …`
#[derive(Schema)]
#[schema("project-name/Placed@1")]
pub struct Placed {
    pub order_id: String,
    pub cents: u64,
}

/// The customer does not want the order any more. To send one: `aos flow signal order …`
#[derive(Schema)]
#[schema("project-name/Cancel@1")]
pub struct Cancel {
    pub order_id: String,
    pub reason: String,
}

/// Told when the order is on its way. Another workflow may subscribe to it.
#[derive(Schema)]
#[schema("project-name/Shipped@1")]
pub struct Shipped {
    pub order_id: String,
    pub parcel: String,
}

/// Take the money. `effects.py` has a function for each of these effects.
#[derive(Effect)]
#[effect("project-name/charge@1", receipt = Charged, executor = "project-name", timeout_ms = 5000)]
pub struct Charge {
    pub order_id: String,
    pub cents: u64,
}

#[derive(Schema)]
#[schema("project-name/Charged@1")]
pub struct Charged {
    pub charge: String,
}

/// Give the money back.
#[derive(Effect)]
#[effect("project-name/refund@1", receipt = Refunded, executor = "project-name", timeout_ms = 5000)]
pub struct Refund {
    pub charge: String,
}

#[derive(Schema)]
#[schema("project-name/Refunded@1")]
pub struct Refunded {
    pub refund: String,
}

/// Give the order to the warehouse.
#[derive(Effect)]
#[effect("project-name/ship@1", receipt = Parcel, executor = "project-name", timeout_ms = 60000)]
pub struct Ship {
    pub order_id: String,
}

/// The result of the flow.
#[derive(Schema)]
#[schema("project-name/Parcel@1")]
pub struct Parcel {
    pub parcel: String,
}

/// Ask the customer for a review.
#[derive(Effect)]
#[effect("project-name/ask@1", receipt = Asked, executor = "project-name", timeout_ms = 5000)]
pub struct Ask {
    pub order_id: String,
}

#[derive(Schema)]
#[schema("project-name/Asked@1")]
pub struct Asked {
    pub mail: String,
}

/// How far the order is. `aos flow show order …` shows it while the flow runs.
#[derive(Schema)]
#[schema("project-name/Progress@1")]
pub enum Progress {
    Charging,
    Shipping { charge: String },
    Shipped { parcel: String },
}

/// Charge, ship or hear that it is canceled, wait for a month, ask for a review.
#[flow(
    "project-name/order@1",
    key = "project-name/OrderId@1",
    start(Placed by "order_id"),
    listens(Cancel by "order_id"),
    effects(Charge, Refund, Ship, Ask),
    view = Progress
)]
async fn order(cx: Cx, placed: Placed) -> Result<Parcel, FlowError> {
    let order_id = &placed.order_id;

    cx.publish(Progress::Charging);
    let charged = cx
        .step("charge", Charge { order_id: order_id.clone(), cents: placed.cents })
        .retry(BANK)
        // If the order fails from here on, or is canceled, this is done.
        .rollback(|charged| Refund { charge: charged.charge.clone() })
        .await?;

    // The first branch that succeeds wins, and the other is canceled. A rollback ends both at once:
    // without it, an order that cannot be shipped would wait for a customer who cancels.
    cx.publish(Progress::Shipping { charge: charged.charge.clone() });
    let ship = branch("ship", async || {
        let ship = cx.step("ship", Ship { order_id: order_id.clone() }).retry(WAREHOUSE);
        ship.await.map_err(FlowError::into_rollback)
    });
    let cancel = branch("cancel", async || {
        let cancel = cx.listen::<Cancel>("asked").await?;
        Err(FlowError::rollback("canceled", cancel.reason))
    });
    let won = cx.race("ship-or-cancel", [ship, cancel]).await?;

    let parcel = won.value.parcel;
    cx.publish(Progress::Shipped { parcel: parcel.clone() });
    cx.emit("shipped", Shipped { order_id: order_id.clone(), parcel: parcel.clone() }).await?;

    // Nothing runs for the month. A restart does not change when it ends.
    cx.sleep("month", Duration::days(30)).await?;
    cx.step("review", Ask { order_id: order_id.clone() }).await?;
    Ok(Parcel { parcel })
}
