//! `#[workflow]`: a function as a workflow, with its entrypoint and its AIR.

use proc_macro::{Ident, TokenStream};

use crate::arguments::{Argument, arguments, named};
use crate::cursor::Cursor;
use crate::declaration::{Declaration, json_name, located};
use crate::effect::field;
use crate::failure::Failure;
use crate::route::{routes, subscriptions};
use crate::schema::{json_text, word};
use crate::signature::Signature;
use crate::template::fill;

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

struct Function {
    name: Ident,
    doc: String,
    state: TokenStream,
    event: TokenStream,
}

pub fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream, Failure> {
    let function = function(item.clone())?;
    let declaration = Declaration::read(attribute, "workflow", &function.name, &KNOWN)?;

    let mut tokens = item;
    tokens.extend(implementation(&function, &declaration.entrypoint));
    let mut nodes = defworkflow(&function, &declaration)?;
    if let Some(argument) = declaration.argument("routes") {
        let routes = routes(argument, declaration.key.is_some())?;
        let lines = routes.iter().map(|route| route.subscription(&declaration.name));
        nodes.extend(subscriptions(lines.collect()));
    }
    tokens.extend(fill("const _: () = { __nodes };", &[("__nodes", nodes)]));
    Ok(tokens)
}

fn function(item: TokenStream) -> Result<Function, Failure> {
    let plain = "a workflow is a plain function: `fn name(state: &mut State, event: Event, cx: &mut Context)`";
    let signature = Signature::read(item, plain)?;
    if let Some(qualifier) = signature.qualifiers.first() {
        return Err(Failure::at(qualifier.span(), plain));
    }
    let name = &signature.name;
    let shape = format!(
        "a workflow is `fn {name}(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault>`"
    );
    let (types, place) = signature.parameters(&shape)?;
    let [state, event, _] = types.as_slice() else {
        return Err(Failure::at(place, shape));
    };
    let mut borrowed = Cursor::new(state.clone(), place);
    if !borrowed.take_punct('&') || !borrowed.take_word("mut") {
        return Err(borrowed.failure(format!("the state is taken as `&mut State`: {shape}")));
    }
    Ok(Function {
        state: borrowed.rest(),
        event: event.clone(),
        name: signature.name,
        doc: signature.doc,
    })
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

fn defworkflow(function: &Function, declaration: &Declaration) -> Result<TokenStream, Failure> {
    let mut settings = declaration.head_fields()?;
    settings.extend(declaration.effects_field(&[])?);
    settings.extend(declaration.limits_field(&[])?);
    settings.extend(declaration.choice_field("lifecycle", &["quiescent", "explicit"])?);
    settings.extend(declaration.choice_field("upgrade", &["quiesce", "in_place"])?);
    let mut nodes = TokenStream::new();
    if let Some(argument) = declaration.argument("migrate") {
        let (migrate, exported) = migration(argument, function)?;
        settings.extend(migrate);
        nodes.extend(exported);
    }
    let name =
        |ty: &TokenStream| fill("<__type as ::aos_sdk::Named>::NAME", &[("__type", ty.clone())]);
    let (state, event) = (name(&function.state), name(&function.event));
    nodes.extend(declaration.nodes(&function.doc, state, event, settings));
    nodes.extend(handle_check(function, declaration)?);
    Ok(nodes)
}

/// The check that `effects(…)` has the effect of every handle in the state. The compiler reports it
/// at `effects(…)`, or at the whole attribute.
fn handle_check(function: &Function, declaration: &Declaration) -> Result<TokenStream, Failure> {
    let check = fill(
        "const _: () = if let ::core::option::Option::Some(__refusal) =
            <__state as ::aos_sdk::Schema>::TYPE.handle_without(&[__effects])
        {
            ::core::panic!(\"{}\", __refusal.text());
        };",
        &[("__effects", declaration.effect_names("__name,")?), ("__state", function.state.clone())],
    );
    Ok(located(check, declaration.span("effects")))
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
