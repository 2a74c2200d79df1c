//! `#[flow]`: an async function as a workflow, with its type, its entrypoint and its AIR.

use proc_macro::{Ident, Span, TokenStream};

use crate::arguments::named;
use crate::cursor::Cursor;
use crate::declaration::{Declaration, located};
use crate::effect::field;
use crate::failure::Failure;
use crate::names;
use crate::route::{Route, routes, subscription, subscriptions};
use crate::schema::{json_text, text, word};
use crate::signature::Signature;
use crate::template::{code, fill};

const KNOWN: [&str; 13] = [
    "key",
    "start",
    "listens",
    "effects",
    "view",
    "callable",
    "calls",
    "name",
    "annotations",
    "limits",
    "upgrade",
    "module",
    "entrypoint",
];
/// Every flow requests these for itself.
const OWN_EFFECTS: [&str; 2] = ["sys/timer.set@1", "sys/effect.cancel@1"];
/// The limits of a flow that says nothing else. It remembers few idempotency keys: a long loop must
/// not hold those of every iteration.
const LIMITS: [(&str, u64); 3] = [("effects", 1024), ("events", 1024), ("keys", 64)];
/// A turn ends when it comes to these limits. It needs two of each to do anything: an attempt and
/// its timer, an event and the one by which it continues.
const LIMIT_LEAST: u64 = 2;

struct Flow {
    declaration: Declaration,
    /// The type of its key.
    key: TokenStream,
    signature: Signature,
    /// The types of its parameters.
    parameters: [TokenStream; 2],
    /// The name of the type.
    marker: Ident,
    start: Route,
    listens: Vec<Route>,
    /// The types of the flows that it calls.
    calls: Vec<TokenStream>,
    effects: u64,
    events: u64,
}

/// A schema that comes with a flow: an arm of its event, and a route to it.
struct Own {
    arm: &'static str,
    name: String,
    /// Its type expression.
    of: TokenStream,
    key_field: String,
    creates: bool,
}

pub fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream, Failure> {
    let flow = read(attribute, item.clone())?;
    let own = flow.own();
    let mut inside = flow.implementation()?;
    inside.extend(own.iter().map(Own::node));
    inside.extend(flow.event(&own));
    inside.extend(flow.defworkflow()?);
    inside.extend(flow.subscriptions(&own));
    let mut tokens = item;
    tokens.extend(flow.marker_type());
    tokens.extend(fill("const _: () = { __inside };", &[("__inside", inside)]));
    Ok(tokens)
}

fn read(attribute: TokenStream, item: TokenStream) -> Result<Flow, Failure> {
    let plain = "a flow is an async function: `async fn name(cx: Cx, input: Input) -> Result<Output, FlowError>`";
    let signature = Signature::read(item, plain)?;
    match signature.qualifiers.as_slice() {
        [only] if only.to_string() == "async" => {}
        [] => return Err(Failure::at(signature.name.span(), plain)),
        [first, ..] => return Err(Failure::at(first.span(), plain)),
    }
    let shape = format!(
        "a flow is `async fn {}(cx: Cx, input: Input) -> Result<Output, FlowError>`",
        signature.name
    );
    let (parameters, place) = signature.parameters(&shape)?;
    let Ok(parameters) = parameters.try_into() else { return Err(Failure::at(place, shape)) };
    if signature.returns.is_empty() {
        return Err(Failure::at(signature.name.span(), shape));
    }
    let declaration = Declaration::read(attribute, "flow", &signature.name, &KNOWN)?;
    let Some(key) = declaration.key.as_ref().map(|key| key.ty.clone()) else {
        return Err(Failure::at(
            Span::call_site(),
            "a flow has a key: say `key = \"namespace/Name@1\"`",
        ));
    };
    let (marker, start) = (marker(&declaration, &signature)?, start(&declaration)?);
    check_marker(&marker, &start)?;
    Ok(Flow {
        marker,
        start,
        listens: match declaration.argument("listens") {
            Some(argument) => routes(argument, true)?,
            None => Vec::new(),
        },
        calls: declaration.types("calls", "calls(Order, Invoice)")?,
        effects: limit(&declaration, "effects", 1024)?,
        events: limit(&declaration, "events", 4096)?,
        declaration,
        key,
        signature,
        parameters,
    })
}

fn marker(declaration: &Declaration, signature: &Signature) -> Result<Ident, Failure> {
    if let Some(argument) = declaration.argument("name") {
        let mut cursor = Cursor::new(argument.value.clone(), argument.span);
        let name = cursor.ident("the name of the flow's type")?;
        return match cursor.at_end() {
            true => Ok(name),
            false => Err(cursor.failure("expected `name = Type`")),
        };
    }
    let function = signature.name.to_string();
    let name = names::pascal(function.trim_start_matches("r#"));
    Ok(Ident::new(&name, signature.name.span()))
}

/// Its type and its input would have one name, which the compiler would call a second definition.
fn check_marker(marker: &Ident, start: &Route) -> Result<(), Failure> {
    if start.ty.to_string() != marker.to_string() {
        return Ok(());
    }
    let message = format!(
        "the type of the flow and its input are both called `{marker}`: say `name = {marker}Flow`"
    );
    Err(Failure::at(marker.span(), message))
}

fn start(declaration: &Declaration) -> Result<Route, Failure> {
    let example = "`start(Placed by \"order_id\")`, the event that starts a flow and is its input";
    let Some(argument) = declaration.argument("start") else {
        return Err(Failure::at(Span::call_site(), format!("a flow needs {example}")));
    };
    let mut routes = routes(argument, true)?;
    match (routes.pop(), routes.is_empty()) {
        (Some(start), true) => Ok(start),
        _ => Err(Failure::at(argument.span, format!("expected one event: {example}"))),
    }
}

/// A limit by which a turn knows when to end; `most` is the greatest (`spec/manifest.md`, M-41).
fn limit(declaration: &Declaration, name: &str, most: u64) -> Result<u64, Failure> {
    let said = declaration.limits()?.unwrap_or_default();
    let default =
        LIMITS.iter().find(|(limit, _)| *limit == name).map_or(most, |(_, number)| *number);
    let Some(argument) = named(&said, name) else { return Ok(default) };
    let number = argument.number()?;
    if (LIMIT_LEAST..=most).contains(&number) {
        return Ok(number);
    }
    let message = format!("a turn of a flow has {LIMIT_LEAST} to {most} {name}");
    Err(Failure::at(argument.span, message))
}

impl Flow {
    fn name(&self, suffix: &str) -> String {
        names::derived(&self.declaration.name, suffix)
    }

    fn is_callable(&self) -> bool {
        self.declaration.argument("callable").is_some()
    }

    /// Where in the input the key is. `route` has checked that it is there.
    fn key_field(&self) -> &str {
        self.start.key_field.as_deref().unwrap_or_default()
    }

    fn marker_type(&self) -> TokenStream {
        fill(
            "#[doc = __doc] __visibility enum __marker {}",
            &[
                ("__doc", text(&format!("The flow `{}`.", self.declaration.name))),
                ("__visibility", self.signature.visibility.clone()),
                ("__marker", word(&self.marker)),
            ],
        )
    }

    fn implementation(&self) -> Result<TokenStream, Failure> {
        let view = match self.declaration.argument("view") {
            Some(argument) => argument.ty()?,
            None => code("()"),
        };
        let returns = (!self.calls.is_empty()).then(|| self.name("Return"));
        let mut tokens = fill(
            "#[automatically_derived]
            impl ::aos_sdk::flow::Flow for __marker {
                type Input = __input;
                type Output = __output;
                type View = __view;
                const WORKFLOW: &'static str = __workflow;
                const CONTROL: &'static str = __control;
                const RETURN: ::core::option::Option<&'static str> = __answer;
                const OUTPUT: ::core::option::Option<&'static str> =
                    <Self::Output as ::aos_sdk::Schema>::TYPE.name();
                const VIEW: ::core::option::Option<&'static str> =
                    <Self::View as ::aos_sdk::Schema>::TYPE.name();
                const LISTENS: &'static [&'static str] = &[__listens];
                const EFFECTS_LIMIT: u64 = __effects;
                const EVENTS_LIMIT: u64 = __events;
                fn run(cx: ::aos_sdk::flow::Cx, input: Self::Input) -> impl ::core::future::Future<
                    Output = ::core::result::Result<Self::Output, ::aos_sdk::flow::FlowError>,
                > {
                    __function(__cx, __value)
                }
            }
            ::aos_sdk::export!(__entrypoint: ::aos_sdk::flow::Turn<__marker>);",
            &[
                ("__marker", word(&self.marker)),
                ("__input", self.start.ty.clone()),
                ("__output", self.output()),
                ("__view", view),
                ("__workflow", text(&self.declaration.name)),
                ("__control", text(&self.name("Control"))),
                ("__answer", optional(returns.as_deref())),
                ("__listens", self.listens.iter().map(schema_name).collect()),
                ("__effects", code(&self.effects.to_string())),
                ("__events", code(&self.events.to_string())),
                ("__function", word(&self.signature.name)),
                ("__cx", word_at("cx", &self.parameters[0])),
                ("__value", word_at("input", &self.parameters[1])),
                ("__entrypoint", word(&self.declaration.entrypoint)),
            ],
        );
        if self.is_callable() {
            tokens.extend(fill(
                "#[automatically_derived]
                impl ::aos_sdk::flow::Callable for __marker {
                    const CALL: &'static str = __call;
                    const KEY_FIELD: &'static str = __key_field;
                }",
                &[
                    ("__marker", word(&self.marker)),
                    ("__call", text(&self.name("Call"))),
                    ("__key_field", text(self.key_field())),
                ],
            ));
        }
        tokens.extend(self.calls.iter().map(|called| {
            fill(
                "const _: &str = <__called as ::aos_sdk::flow::Callable>::CALL;",
                &[("__called", called.clone())],
            )
        }));
        Ok(tokens)
    }

    /// The type of its output: the compiler finds it, and points to what the function returns.
    fn output(&self) -> TokenStream {
        let returns = &self.signature.returns;
        let place = Cursor::new(returns.clone(), Span::call_site()).span();
        let output = fill(
            "<__returns as ::aos_sdk::flow::Returned>::Output",
            &[("__returns", returns.clone())],
        );
        located(output, place)
    }

    /// The schemas that come with this flow, in the order of their arms.
    fn own(&self) -> Vec<Own> {
        let key = type_of(&self.key);
        let mut own = vec![Own {
            arm: "Control",
            name: self.name("Control"),
            of: fill(
                "::aos_sdk::air::Type::Record(&[
                    (\"instance\", &__key),
                    (\"command\", &::aos_sdk::air::Type::Variant(&[
                        (\"Cancel\", &::aos_sdk::air::Type::Record(&[
                            (\"rollback\", &::aos_sdk::air::Type::Bool),
                            (\"parent\", &::aos_sdk::air::Type::Option(&::aos_sdk::flow::CALLER)),
                        ])),
                        (\"Resume\", &::aos_sdk::air::Type::Record(&[(\"skip\", &::aos_sdk::air::Type::Bool)])),
                        (\"Continue\", &::aos_sdk::air::Type::Unit),
                    ])),
                ])",
                &[("__key", key.clone())],
            ),
            key_field: "instance".into(),
            creates: false,
        }];
        if self.is_callable() {
            own.push(Own {
                arm: "Call",
                name: self.name("Call"),
                of: fill(
                    "::aos_sdk::air::Type::Record(&[
                        (\"input\", &__input),
                        (\"reply\", &::aos_sdk::flow::CALLER),
                    ])",
                    &[("__input", type_of(&self.start.ty))],
                ),
                key_field: format!("input.{}", self.key_field()),
                creates: true,
            });
        }
        if !self.calls.is_empty() {
            own.push(Own {
                arm: "Return",
                name: self.name("Return"),
                of: fill(
                    "::aos_sdk::air::Type::Record(&[
                        (\"instance\", &__key),
                        (\"path\", &::aos_sdk::air::Type::Text),
                        (\"attempt\", &::aos_sdk::air::Type::Nat),
                        (\"result\", &::aos_sdk::air::Type::Variant(&[
                            (\"Ok\", &::aos_sdk::air::Type::Bytes),
                            (\"Failed\", &::aos_sdk::air::Type::Bytes),
                        ])),
                    ])",
                    &[("__key", key)],
                ),
                key_field: "instance".into(),
                creates: false,
            });
        }
        own
    }

    /// The event: a variant of everything that can reach the flow. The engine reads the arms by
    /// these names.
    fn event(&self, own: &[Own]) -> TokenStream {
        let (control, later) = own.split_at(1);
        let mut arms = arm("Start", reference(&self.start.ty));
        arms.extend(control.iter().map(Own::event_arm));
        for (name, ty) in [("Receipt", "::aos_sdk::Receipt"), ("Rejected", "::aos_sdk::Rejected")] {
            arms.extend(arm(name, reference(&code(ty))));
        }
        arms.extend(later.iter().map(Own::event_arm));
        for (number, listened) in self.listens.iter().enumerate() {
            arms.extend(arm(&format!("M{number}"), reference(&listened.ty)));
        }
        let of = fill("::aos_sdk::air::Type::Variant(&[__arms])", &[("__arms", arms)]);
        let mut tokens = defschema(&self.name("FlowEvent"), "EVENT_SCHEMA", of);
        let check = code("const _: () = EVENT_SCHEMA.of.assert_event();");
        tokens.extend(located(check, self.declaration.span("listens")));
        tokens
    }

    fn defworkflow(&self) -> Result<TokenStream, Failure> {
        let mut settings = self.declaration.head_fields()?;
        settings.extend(self.declaration.effects_field(&OWN_EFFECTS)?);
        settings.extend(self.declaration.limits_field(&LIMITS)?);
        // A flow that waits for a message has nothing open, and is in flight all the same.
        settings.extend(field("lifecycle", json_text("explicit")));
        settings.extend(self.declaration.choice_field("upgrade", &["quiesce", "in_place"])?);
        let mut nodes = self.declaration.nodes(
            &self.signature.doc,
            code("::aos_sdk::flow::STATE"),
            text(&self.name("FlowEvent")),
            settings,
        );
        nodes.extend(code("::aos_sdk::air_node!(::aos_sdk::flow::NODE);"));
        Ok(nodes)
    }

    fn subscriptions(&self, own: &[Own]) -> TokenStream {
        let workflow = &self.declaration.name;
        let authors = [&self.start].into_iter().chain(&self.listens);
        let lines = authors.map(|route| route.subscription(workflow));
        subscriptions(lines.chain(own.iter().map(|own| own.subscription(workflow))).collect())
    }
}

impl Own {
    fn definition(&self) -> String {
        format!("{}_SCHEMA", self.arm.to_ascii_uppercase())
    }

    fn node(&self) -> TokenStream {
        defschema(&self.name, &self.definition(), self.of.clone())
    }

    fn event_arm(&self) -> TokenStream {
        arm(self.arm, code(&format!("::aos_sdk::air::Type::Ref(&{})", self.definition())))
    }

    fn subscription(&self, workflow: &str) -> TokenStream {
        subscription(json_text(&self.name), workflow, Some(&self.key_field), self.creates)
    }
}

/// The constant of a schema, and its node.
fn defschema(name: &str, definition: &str, of: TokenStream) -> TokenStream {
    fill(
        "const __definition: ::aos_sdk::air::Definition =
            ::aos_sdk::air::Definition { name: __name, of: __of };
        ::aos_sdk::air_node!(::aos_sdk::air::Json::Object(&[
            (\"$kind\", ::aos_sdk::air::Json::Text(\"defschema\")),
            (\"name\", ::aos_sdk::air::Json::Text(__name)),
            (\"type\", ::aos_sdk::air::Json::Type(&__definition.of)),
        ]));",
        &[("__definition", code(definition)), ("__name", text(name)), ("__of", of)],
    )
}

fn arm(name: &str, of: TokenStream) -> TokenStream {
    fill("(__name, &__of),", &[("__name", text(name)), ("__of", of)])
}

/// The type expression of a type.
fn type_of(ty: &TokenStream) -> TokenStream {
    fill("<__type as ::aos_sdk::Schema>::TYPE", &[("__type", ty.clone())])
}

/// The type expression of a type with a name.
fn reference(ty: &TokenStream) -> TokenStream {
    fill(
        "::aos_sdk::air::Type::Ref(&<__type as ::aos_sdk::Named>::DEFINITION)",
        &[("__type", ty.clone())],
    )
}

/// A word of ours at the place of the author's tokens, where the compiler is to point.
fn word_at(name: &str, tokens: &TokenStream) -> TokenStream {
    let place = Cursor::new(tokens.clone(), Span::call_site()).span();
    located(code(name), place)
}

fn schema_name(route: &Route) -> TokenStream {
    fill("<__type as ::aos_sdk::Named>::NAME,", &[("__type", route.ty.clone())])
}

fn optional(name: Option<&str>) -> TokenStream {
    match name {
        Some(name) => fill("::core::option::Option::Some(__name)", &[("__name", text(name))]),
        None => code("::core::option::Option::None"),
    }
}
