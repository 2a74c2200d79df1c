//! The macros of `aos-sdk`. They depend on nothing but the compiler; what they mean is documented
//! where `aos_sdk` exports them.

mod arguments;
mod cursor;
mod declaration;
mod effect;
mod failure;
mod flow;
mod item;
mod names;
mod route;
mod schema;
mod signature;
mod template;
mod unsupported;
mod workflow;

use proc_macro::TokenStream;

use failure::Failure;
use item::Item;

/// A struct or enum as a type of AIR, with `#[schema("namespace/Name@1")]` under a name of its own.
///
/// On a field or an arm, `#[schema(rename = "…")]` gives the name that it has in AIR.
#[proc_macro_derive(Schema, attributes(schema))]
pub fn schema(item: TokenStream) -> TokenStream {
    derive(item, schema::derive)
}

/// The event of a workflow that takes several: an enum whose arms hold schemas with names, domain
/// events and continuations.
///
/// ```text
/// #[derive(Event)]
/// #[schema("shop/OrderEvent@1")]
/// pub enum Event { Placed(Placed), Receipt(Receipt), Rejected(Rejected) }
/// ```
#[proc_macro_derive(Event, attributes(schema))]
pub fn event(item: TokenStream) -> TokenStream {
    derive(item, schema::derive_event)
}

/// A struct as the params of an effect.
///
/// ```text
/// #[derive(Effect)]
/// #[effect("shop/card.charge@1", receipt = Charged, executor = "shop")]
/// pub struct Charge { pub order_id: String, pub cents: u64 }
/// ```
///
/// Besides these: `params = "namespace/Name@1"` (else it is made of the effect's name:
/// `shop/CardChargeParams@1`), `timeout_ms = 1000`, `retry(attempts = 3, base_ms = 100, cap_ms =
/// 1000)`, `delivery = "at_most_once"`, `idempotency_scope = "world"`, and `lane = "order_id"` or
/// `lane("customer.id", "sku")`: effects with equal values there run one at a time.
#[proc_macro_derive(Effect, attributes(schema, effect))]
pub fn effect(item: TokenStream) -> TokenStream {
    derive(item, effect::derive)
}

/// A function as a workflow: it is exported as an entrypoint, and its AIR is generated.
///
/// ```text
/// #[workflow("shop/order@1", key = "shop/OrderId@1", effects(Charge, timer::Set), routes(Placed by "order_id"))]
/// fn order(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault> { … }
/// ```
///
/// | argument | meaning |
/// |---|---|
/// | `key = "shop/OrderId@1"` | the cells' key, a text; `"…" as u64` of another type; or a type with a name |
/// | `effects(Charge, timer::Set)` | every effect that it may start |
/// | `routes(Placed by "order_id", …)` | the events that reach it, and the field with the key; without a key only `Placed` |
/// | `annotations = Note` | what it annotates its steps with |
/// | `limits(fuel = 1_000_000, …)` | `fuel`, `memory_bytes`, `output_bytes`, `state_bytes`, `effects`, `events`, `keys` |
/// | `lifecycle = "explicit"`, `upgrade = "in_place"` | as in the manifest |
/// | `migrate(from = OldState, by = function)` | `fn function(old: OldState) -> Result<State, Fault>` takes over older states |
/// | `module = "shop/orders@1"`, `entrypoint = "order"` | other names than the package's and the function's |
#[proc_macro_attribute]
pub fn workflow(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function(attribute, item, workflow::expand)
}

/// An async function as a workflow that survives crashes, months and new versions. It is exported as
/// an entrypoint, its AIR is generated, and a type of its name in Pascal case implements `Flow`.
///
/// ```text
/// #[flow("shop/order@1", key = "shop/OrderId@1", start(Placed by "order_id"),
///        listens(Cancel by "order_id"), effects(Charge, Ship), view = Progress)]
/// async fn order(cx: Cx, placed: Placed) -> Result<Parcel, FlowError> { … }
/// ```
///
/// | argument | meaning |
/// |---|---|
/// | `key = "shop/OrderId@1"` | the flows' key, as in `#[workflow]` |
/// | `start(Placed by "order_id")` | the event that starts a flow, its input, and the field with the key |
/// | `listens(Cancel by "order_id", …)` | the events that it may wait for, and the field with the key |
/// | `effects(Charge, Ship)` | every effect of its steps and compensations; timers and cancellations are added |
/// | `view = Progress` | what it publishes while it runs |
/// | `callable` | other flows may call it |
/// | `calls(Order, …)` | the flows that it calls |
/// | `name = OrderFlow` | the name of the flow's type, which otherwise is that of the function: `Order` for `order`. Say it if the module has another type `Order` (E0428 at this attribute) |
/// | `limits(effects = 1024, events = 1024, keys = 64, …)` | as in `#[workflow]`; these are the defaults of a flow |
/// | `upgrade`, `annotations`, `module`, `entrypoint` | as in `#[workflow]` |
#[proc_macro_attribute]
pub fn flow(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function(attribute, item, flow::expand)
}

fn function(
    attribute: TokenStream,
    item: TokenStream,
    expand: fn(TokenStream, TokenStream) -> Result<TokenStream, Failure>,
) -> TokenStream {
    let original = item.clone();
    expand(attribute, item).unwrap_or_else(|failure| {
        // The function stays, so that nothing else is missing.
        [original, failure.into_tokens()].into_iter().collect()
    })
}

fn derive(item: TokenStream, expand: fn(&Item) -> Result<TokenStream, Failure>) -> TokenStream {
    item::item(item).and_then(|item| expand(&item)).unwrap_or_else(Failure::into_tokens)
}
