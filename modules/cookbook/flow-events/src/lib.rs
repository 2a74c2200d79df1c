//! `parcel/delivery@1`, keyed by order: a van drives to the customer, as a flow. It knows the events
//! of the desk, and nothing else of it.

#![no_std]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

/// How long a parcel that has arrived can still be redirected.
const DOORSTEP: Duration = Duration::hours(2);

/// Starts the flow.
#[derive(Schema)]
#[schema("parcel/Deliver@1")]
pub struct Deliver {
    pub order_id: String,
    pub city: String,
}

/// The customer is somewhere else.
#[derive(Schema)]
#[schema("parcel/Redirect@1")]
pub struct Redirect {
    pub order_id: String,
    pub city: String,
}

#[derive(Schema)]
#[schema("parcel/Delivered@1")]
pub struct Delivered {
    pub order_id: String,
    pub city: String,
}

#[derive(Schema)]
#[schema("parcel/Lost@1")]
pub struct Lost {
    pub order_id: String,
    pub why: String,
}

#[derive(Effect)]
#[effect("parcel/van.drive@1", receipt = Arrived, executor = "vans", timeout_ms = 60000)]
pub struct Drive {
    pub order_id: String,
    pub city: String,
}

#[derive(Schema)]
#[schema("parcel/Arrived@1")]
pub struct Arrived {
    pub van: String,
}

#[flow(
    "parcel/delivery@1",
    key = "parcel/OrderId@1",
    start(Deliver by "order_id"),
    listens(Redirect by "order_id"),
    effects(Drive)
)]
async fn delivery(cx: Cx, deliver: Deliver) -> Result<(), FlowError> {
    let order_id = deliver.order_id.clone();
    match drive(cx, &deliver).await {
        Ok(city) => cx.emit("delivered", Delivered { order_id, city }).await,
        Err(error) => cx.emit("lost", Lost { order_id, why: error.code().into() }).await,
    }
}

/// Drive to the customer, and on to the next city if the customer has moved meanwhile.
async fn drive(cx: Cx, deliver: &Deliver) -> Result<String, FlowError> {
    cx.loop_("leg", deliver.city.clone(), async |city| {
        let drive = Drive { order_id: deliver.order_id.clone(), city: city.clone() };
        cx.step("drive", drive).await?;
        Ok(match cx.listen_with_timeout::<Redirect>("redirect", DOORSTEP).await? {
            Some(redirect) => Loop::Continue(redirect.city),
            None => Loop::Break(city),
        })
    })
    .await
}
