#![no_std]
#![deny(warnings)]
#![deny(unused_must_use)]

use aos_sdk::flow::Kind;
use aos_sdk::prelude::*;

#[derive(Schema, Clone)]
#[schema("t/Placed@1")]
pub struct Placed {
    pub id: String,
    pub parts: Vec<String>,
}

#[derive(Schema)]
#[schema("t/Cancel@1")]
pub struct Cancel {
    pub id: String,
}

#[derive(Schema)]
#[schema("t/Done@1")]
pub struct Done {
    pub id: String,
}

#[derive(Effect)]
#[effect("t/make@1", receipt = Made, executor = "t")]
pub struct Make {
    pub part: String,
}

#[derive(Effect)]
#[effect("t/scrap@1", receipt = Made, executor = "t")]
pub struct Scrap {
    pub part: String,
}

#[derive(Schema, Clone)]
#[schema("t/Made@1")]
pub struct Made {
    pub part: String,
}

#[derive(Schema)]
pub struct View {
    made: u64,
}

#[flow(
    "t/order@1",
    key = "t/Id@1",
    start(Placed by "id"),
    listens(Cancel by "id"),
    effects(Make, Scrap),
    view = View,
    callable
)]
async fn order(cx: Cx, placed: Placed) -> Result<Vec<Made>, FlowError> {
    let _key: String = cx.key()?;
    cx.publish(View { made: 0 });
    let begun = cx.local("begun", |local| local.now()).await?;
    let text = String::from("borrowed by every body");

    let first = cx
        .step("first", Make { part: text.clone() })
        .retry(Retry::attempts(3).pauses(Duration::seconds(1), Duration::minutes(1)).jitter())
        .retry_timeouts()
        .timeout(Duration::hours(1))
        .rollback(|made| Scrap { part: made.part.clone() })
        .rollback_unknown(|| Scrap { part: text.clone() })
        .await?;

    cx.checkpoint("made").await?;
    let made = make_all(cx, &placed.parts).await?;
    let (_, number) = cx
        .join("both", (
            branch("nap", async || cx.sleep_until("until", begun + Duration::days(1)).await),
            branch("number", async || cx.local("number", |local| local.random()).await),
        ))
        .await?;
    log!(cx, "{number}");

    let won = cx
        .race("first", [
            branch("cancel", async || Ok(cx.listen::<Cancel>("asked").await?.id)),
            branch("nap", async || {
                cx.sleep("nap", Duration::days(30)).await?;
                Ok(text.clone())
            }),
        ])
        .rollback_losers()
        .await;
    match won {
        Ok(Won { branch, .. }) if branch == "cancel" => cx.rollback_to("back", "made").await?,
        Ok(_) => cx.commit("done").await?,
        Err(error) => return Err(error),
    }

    let count = cx
        .loop_("count", 0, async |count: u64| match count {
            3 => Ok(Loop::Break(count)),
            _ => Ok(Loop::Continue(count + 1)),
        })
        .history_every(10)
        .history_keep(10)
        .await?;
    cx.publish(View { made: count });
    if cx.version("told", 2).await? >= 2 {
        cx.emit("done", Done { id: placed.id.clone() }).await?;
    }
    cx.removed("survey", Kind::Step).await?;
    Ok(made.into_iter().chain([first]).collect())
}

/// A helper, and recursion through a box.
async fn make_all(cx: Cx, parts: &[String]) -> Result<Vec<Made>, FlowError> {
    let branches = parts.iter().map(|part| {
        branch(part, async move || cx.step("make", Make { part: part.clone() }).await)
    });
    let mut made = cx.join_all("parts", branches).at_most(10).await?;
    if let [_, rest @ ..] = parts {
        let again = cx.scope("again", async || Box::pin(make_all(cx, rest)).await).await?;
        made.extend(again);
    }
    Ok(made)
}

#[flow("t/basket@1", key = "t/BasketId@1", start(Basket by "id"), calls(Order), name = BasketFlow)]
async fn basket(cx: Cx, basket: Basket) -> Result<Vec<Made>, FlowError> {
    for (number, order) in basket.orders.iter().enumerate() {
        cx.spawn::<Order>(&format!("spawn {number}"), order.clone()).await?;
    }
    match basket.orders.into_iter().next() {
        Some(order) => cx.call::<Order>("call", order).await,
        None => Err(FlowError::critical("empty", "there is no order")),
    }
}

#[derive(Schema)]
#[schema("t/Basket@1")]
pub struct Basket {
    pub id: String,
    pub orders: Vec<Placed>,
}
