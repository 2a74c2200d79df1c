//! `#[workflow]`: a function as a workflow, with its entrypoint and its AIR.

use proc_macro::{Delimiter, Ident, Span, TokenStream, TokenTree};

use crate::arguments::{Argument, arguments, first, named};
use crate::cursor::{Cursor, string};
use crate::effect::{field, number_field};
use crate::failure::Failure;
use crate::item::{attributes, doc, visibility};
use crate::names;
use crate::schema::{comment, json_text, text, word};
use crate::template::{code, fill};

const KNOWN: [&str; 10] = [
    "key",
    "effects",
    "routes",
    "annotations",
    "limits",
    "lifecycle",
    "upgrade",
    "migrate",
    "module",
    "entrypoint",
];
const LIMITS: [&str; 6] =
    ["fuel", "memory_bytes", "output_bytes", "state_bytes", "effects", "events"];
/// The exports that every module has already.
const TAKEN: [&str; 2] = ["memory", "alloc"];

struct Function {
    name: Ident,
    doc: String,
    state: TokenStream,
    event: TokenStream,
}

pub fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream, Failure> {
    let function = function(item.clone())?;
    let arguments = arguments(attribute, Span::call_site(), &KNOWN)?;
    let Some(first) = first(&arguments)? else {
        return Err(Failure::at(
            Span::call_site(),
            "expected `#[workflow(\"namespace/name@1\", …)]`",
        ));
    };
    let name = first.text()?;
    names::check(&name, first.span)?;
    let entrypoint = entrypoint(&function, &arguments)?;
    let module = module(&name, &arguments)?;
    let key = named(&arguments, "key").map(key).transpose()?;

    let mut tokens = item;
    tokens.extend(implementation(&function, &entrypoint));
    let mut nodes = defworkflow(&function, &name, &arguments, key.as_ref(), &module, &entrypoint)?;
    nodes.extend(fill(
        "::aos_sdk::air_node!(::aos_sdk::air::Json::Object(&[
            (\"$kind\", ::aos_sdk::air::Json::Text(\"defmodule\")),
            (\"name\", __module),
            (\"runtime\", ::aos_sdk::air::Json::Object(&[
                (\"kind\", ::aos_sdk::air::Json::Text(\"wasm\")),
                (\"artifact\", ::aos_sdk::air::Json::Object(&[(\"kind\", ::aos_sdk::air::Json::Text(\"wasm_module\"))])),
            ])),
        ]));",
        &[("__module", json_text(&module))],
    ));
    if let Some(argument) = named(&arguments, "routes") {
        nodes.extend(routes(argument, &name, key.is_some())?);
    }
    nodes.extend(key.map(|key| key.node));
    tokens.extend(fill("const _: () = { __nodes };", &[("__nodes", nodes)]));
    Ok(tokens)
}

fn function(item: TokenStream) -> Result<Function, Failure> {
    let mut cursor = Cursor::new(item, Span::call_site());
    let doc = doc(&attributes(&mut cursor)?);
    visibility(&mut cursor);
    if !cursor.take_word("fn") {
        return Err(cursor.failure("a workflow is a plain function: `fn name(state: &mut State, event: Event, cx: &mut Context)`"));
    }
    let name = cursor.ident("a name")?;
    let shape = format!(
        "a workflow is `fn {name}(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault>`"
    );
    let Some(group) = cursor.group(Delimiter::Parenthesis) else {
        return Err(Failure::at(name.span(), shape));
    };
    let mut parameters = Cursor::new(group.stream(), group.span());
    let mut types = Vec::new();
    while !parameters.at_end() {
        types.push(parameter(parameters.until_comma(), &shape)?);
    }
    let [state, event, _] = types.as_slice() else {
        return Err(Failure::at(group.span(), shape));
    };
    let mut borrowed = Cursor::new(state.clone(), group.span());
    if !borrowed.take_punct('&') || !borrowed.take_word("mut") {
        return Err(borrowed.failure(format!("the state is taken as `&mut State`: {shape}")));
    }
    Ok(Function { name, doc, state: borrowed.rest(), event: event.clone() })
}

/// The type of one parameter.
fn parameter(tokens: TokenStream, shape: &str) -> Result<TokenStream, Failure> {
    let mut cursor = Cursor::new(tokens, Span::call_site());
    attributes(&mut cursor)?;
    while !cursor.at_end() {
        if cursor.take_punct(':') {
            return Ok(cursor.rest());
        }
        cursor.next();
    }
    Err(cursor.failure(shape))
}

fn entrypoint(function: &Function, arguments: &[Argument]) -> Result<Ident, Failure> {
    let (name, span) = match named(arguments, "entrypoint") {
        Some(argument) => (argument.text()?, argument.span),
        None => (function.name.to_string(), function.name.span()),
    };
    let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    if TAKEN.contains(&name.as_str())
        || !name.chars().all(plain)
        || name.starts_with(|first: char| first.is_ascii_digit())
        || name.is_empty()
    {
        return Err(Failure::at(
            span,
            format!(
                "\"{name}\" cannot be an entrypoint: say `entrypoint = \"…\"`, an identifier other than `memory` and `alloc`"
            ),
        ));
    }
    Ok(Ident::new(&name, span))
}

fn module(workflow: &str, arguments: &[Argument]) -> Result<String, Failure> {
    if let Some(argument) = named(arguments, "module") {
        let name = argument.text()?;
        names::check(&name, argument.span)?;
        return Ok(name);
    }
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let name = format!("{}/{package}.module@1", names::namespace(workflow));
    names::check(&name, Span::call_site())?;
    Ok(name)
}

/// A `key_schema`: its name, and its node where it is defined here.
struct Key {
    name: TokenStream,
    node: TokenStream,
}

/// `"shop/OrderId@1"` (text), `"shop/OrderNumber@1" as u64`, or a type with a name.
fn key(argument: &Argument) -> Result<Key, Failure> {
    let mut cursor = Cursor::new(argument.value.clone(), argument.span);
    let span = cursor.span();
    let Some(name) = cursor.literal() else {
        let name = fill("<__type as ::aos_sdk::Named>::NAME", &[("__type", argument.ty()?)]);
        return Ok(Key { name, node: TokenStream::new() });
    };
    let Some(name) = string(&name) else {
        return Err(Failure::at(span, "expected a name in quotes, or a type"));
    };
    names::check(&name, span)?;
    let ty = match cursor.take_word("as") {
        true => cursor.rest(),
        false => code("::aos_sdk::alloc::string::String"),
    };
    if !cursor.at_end() {
        return Err(cursor
            .failure("expected `key = \"namespace/Name@1\"`, with `as Type` if it is not text"));
    }
    let node = fill(
        "::aos_sdk::air_node!(::aos_sdk::air::Json::Object(&[
            (\"$kind\", ::aos_sdk::air::Json::Text(\"defschema\")),
            (\"name\", ::aos_sdk::air::Json::Text(__name)),
            (\"type\", ::aos_sdk::air::Json::Type(&<__type as ::aos_sdk::Schema>::TYPE)),
        ]));",
        &[("__name", text(&name)), ("__type", ty)],
    );
    Ok(Key { name: text(&name), node })
}

fn implementation(function: &Function, entrypoint: &Ident) -> TokenStream {
    fill(
        "const _: () = {
            struct Step;
            #[automatically_derived]
            impl ::aos_sdk::Workflow for Step {
                type State = __state;
                type Event = __event;
                fn step(state: &mut __state, event: __event, cx: &mut ::aos_sdk::Context<'_>) -> ::core::result::Result<(), ::aos_sdk::Fault> {
                    ::aos_sdk::Answer::answer(__function(state, event, cx))
                }
            }
            ::aos_sdk::export!(__entrypoint: ::aos_sdk::Typed<Step>);
        };",
        &[
            ("__state", function.state.clone()),
            ("__event", function.event.clone()),
            ("__function", word(&function.name)),
            ("__entrypoint", word(entrypoint)),
        ],
    )
}

fn defworkflow(
    function: &Function,
    name: &str,
    arguments: &[Argument],
    key: Option<&Key>,
    module: &str,
    entrypoint: &Ident,
) -> Result<TokenStream, Failure> {
    let mut fields = TokenStream::new();
    let annotations = match named(arguments, "annotations") {
        Some(argument) => json_name(argument.ty()?),
        None => code("::aos_sdk::log::SCHEMA"),
    };
    fields.extend(field("annotations", annotations));
    if let Some(key) = key {
        fields.extend(field(
            "key_schema",
            fill("::aos_sdk::air::Json::Text(__name)", &[("__name", key.name.clone())]),
        ));
    }
    fields.extend(field("effects_emitted", effects(arguments)?));
    if let Some(argument) = named(arguments, "limits") {
        let limits = crate::arguments::arguments(argument.value.clone(), argument.span, &LIMITS)?;
        let limits: Result<TokenStream, Failure> = limits.iter().map(number_field).collect();
        fields.extend(field(
            "limits",
            fill("::aos_sdk::air::Json::Object(&[__limits])", &[("__limits", limits?)]),
        ));
    }
    for (name, choices) in
        [("lifecycle", ["quiescent", "explicit"]), ("upgrade", ["quiesce", "in_place"])]
    {
        if let Some(argument) = named(arguments, name) {
            fields.extend(field(name, json_text(&argument.one_of(&choices)?)));
        }
    }
    let mut nodes = TokenStream::new();
    if let Some(argument) = named(arguments, "migrate") {
        let (migrate, exported) = migration(argument, function)?;
        fields.extend(migrate);
        nodes.extend(exported);
    }
    nodes.extend(fill(
        "::aos_sdk::air_node!(::aos_sdk::air::Json::Object(&[
            (\"$kind\", ::aos_sdk::air::Json::Text(\"defworkflow\")),
            (\"$comment\", __comment),
            (\"name\", ::aos_sdk::air::Json::Text(__name)),
            (\"state\", ::aos_sdk::air::Json::Text(<__state as ::aos_sdk::Named>::NAME)),
            (\"event\", ::aos_sdk::air::Json::Text(<__event as ::aos_sdk::Named>::NAME)),
            (\"context\", ::aos_sdk::air::Json::Text(\"sys/WorkflowContext@1\")),
            __fields
            (\"impl\", ::aos_sdk::air::Json::Object(&[(\"module\", __module), (\"entrypoint\", __entrypoint)])),
        ]));
        ::aos_sdk::air_node!(::aos_sdk::log::NODE);
        const _: () = <__state as ::aos_sdk::Schema>::TYPE.assert_handles_of(&[__effects]);",
        &[
            ("__effects", effect_names(arguments, "__name,")?),
            ("__comment", comment(&function.doc)),
            ("__name", text(name)),
            ("__state", function.state.clone()),
            ("__event", function.event.clone()),
            ("__fields", fields),
            ("__module", json_text(module)),
            ("__entrypoint", json_text(&entrypoint.to_string())),
        ],
    ));
    Ok(nodes)
}

/// A type's name as a piece of JSON.
fn json_name(ty: TokenStream) -> TokenStream {
    fill("::aos_sdk::air::Json::Text(<__type as ::aos_sdk::Named>::NAME)", &[("__type", ty)])
}

fn effects(arguments: &[Argument]) -> Result<TokenStream, Failure> {
    let names = effect_names(arguments, "::aos_sdk::air::Json::Text(__name),")?;
    Ok(fill("::aos_sdk::air::Json::List(&[__names])", &[("__names", names)]))
}

/// The name of each effect that the workflow asks for, within `piece`.
fn effect_names(arguments: &[Argument], piece: &str) -> Result<TokenStream, Failure> {
    let Some(argument) = named(arguments, "effects") else {
        return Ok(TokenStream::new());
    };
    if !argument.is_group {
        return Err(Failure::at(argument.span, "expected `effects(Charge, timer::Set)`"));
    }
    let name = |ty| fill("<__type as ::aos_sdk::Effect>::EFFECT", &[("__type", ty)]);
    Ok(argument.items().into_iter().map(|ty| fill(piece, &[("__name", name(ty))])).collect())
}

/// `routes(Placed by "order_id", Cancelled by "order_id")`: one line for each, all in one piece, so
/// that their order holds.
fn routes(argument: &Argument, workflow: &str, is_keyed: bool) -> Result<TokenStream, Failure> {
    let mut nodes = TokenStream::new();
    for item in argument.items() {
        let mut cursor = Cursor::new(item, argument.span);
        let span = cursor.span();
        let mut ty: Vec<TokenTree> = Vec::new();
        while !cursor.at_end() && !cursor.is_word("by") {
            ty.extend(cursor.next());
        }
        let by = cursor.take_word("by");
        let key_field =
            if by { cursor.literal().and_then(|literal| string(&literal)) } else { None };
        if ty.is_empty() || (by && key_field.is_none()) || !cursor.at_end() {
            return Err(Failure::at(
                span,
                "expected `Event by \"field\"`, or `Event` for a workflow without a key",
            ));
        }
        let key_field = match (key_field, is_keyed) {
            (Some(path), true) => json_text(&path),
            (None, false) => code("::aos_sdk::air::Json::Absent"),
            (None, true) => {
                return Err(Failure::at(
                    span,
                    "the workflow has a key: say in which field of the event it is, `by \"field\"`",
                ));
            }
            (Some(_), false) => {
                return Err(Failure::at(
                    span,
                    "the workflow has no key: say `key = …` or leave out `by`",
                ));
            }
        };
        let ty: TokenStream = ty.into_iter().collect();
        nodes.extend(fill(
            "::aos_sdk::air::Json::Object(&[
                (\"$kind\", ::aos_sdk::air::Json::Text(\"subscription\")),
                (\"event\", __event),
                (\"workflow\", ::aos_sdk::air::Json::Text(__workflow)),
                (\"key_field\", __key_field),
            ]),",
            &[
                ("__event", json_name(ty)),
                ("__workflow", text(workflow)),
                ("__key_field", key_field),
            ],
        ));
    }
    Ok(fill(
        "::aos_sdk::air_node!(::aos_sdk::air::Json::Lines(&[__nodes]));",
        &[("__nodes", nodes)],
    ))
}

/// `migrate(from = OldState, by = function)`: the field of the node, and the function's export.
fn migration(
    argument: &Argument,
    function: &Function,
) -> Result<(TokenStream, TokenStream), Failure> {
    let inside = arguments(argument.value.clone(), argument.span, &["from", "by"])?;
    let (Some(from), Some(by)) = (named(&inside, "from"), named(&inside, "by")) else {
        return Err(Failure::at(
            argument.span,
            "expected `migrate(from = OldState, by = function)`",
        ));
    };
    let entrypoint =
        Cursor::new(by.value.clone(), by.span).ident("the name of a function in this module")?;
    let json = fill(
        "::aos_sdk::air::Json::Object(&[(\"from\", __from), (\"entrypoint\", __entrypoint)])",
        &[("__from", json_name(from.ty()?)), ("__entrypoint", json_text(&entrypoint.to_string()))],
    );
    let exported = fill(
        "const _: () = {
            struct Migrate;
            #[automatically_derived]
            impl ::aos_sdk::Migration for Migrate {
                type From = __from;
                type To = __to;
                fn migrate(state: __from) -> ::core::result::Result<__to, ::aos_sdk::Fault> {
                    __function(state)
                }
            }
            ::aos_sdk::export_migration!(__function: Migrate);
        };",
        &[
            ("__from", from.ty()?),
            ("__to", function.state.clone()),
            ("__function", word(&entrypoint)),
        ],
    );
    Ok((field("migrate", json), exported))
}
