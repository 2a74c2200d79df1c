//! `#[derive(Effect)]`: a `defeffect` with its params.

use proc_macro::TokenStream;

use crate::arguments::{Argument, arguments, first, named};
use crate::failure::Failure;
use crate::item::{Item, Shape};
use crate::names;
use crate::schema::{ArmsAre, comment, implement, json_text, text, word};
use crate::template::{code, fill};

const KNOWN: [&str; 8] = [
    "receipt",
    "executor",
    "params",
    "timeout_ms",
    "retry",
    "delivery",
    "idempotency_scope",
    "lane",
];
const RETRY: [&str; 3] = ["attempts", "base_ms", "cap_ms"];

pub fn derive(item: &Item) -> Result<TokenStream, Failure> {
    let place = item.name.span();
    if !matches!(item.shape, Shape::Record(_)) {
        return Err(Failure::at(place, "an effect is a struct with fields: its params"));
    }
    let example = "expected `#[effect(\"namespace/name@1\", receipt = Type, executor = \"name\")]`";
    let arguments = item.arguments("effect", &KNOWN)?.ok_or_else(|| Failure::at(place, example))?;
    let name = first(&arguments)?.ok_or_else(|| Failure::at(place, example))?;
    let (effect, span) = (name.text()?, name.span);
    names::check(&effect, span)?;
    let needed = |name| {
        named(&arguments, name)
            .ok_or_else(|| Failure::at(span, format!("`{name} = …` is missing; {example}")))
    };
    let receipt = needed("receipt")?.ty()?;
    let executor = needed("executor")?.text()?;
    let params = match named(&arguments, "params") {
        Some(argument) => {
            let params = argument.text()?;
            names::check(&params, argument.span)?;
            params
        }
        None => names::derived(&effect, "Params"),
    };

    let mut tokens = implement(item, Some(&params), ArmsAre::Any)?;
    tokens.extend(fill(
        "#[automatically_derived]
        impl ::aos_sdk::Effect for __name {
            const EFFECT: &'static str = __effect;
            type Receipt = __receipt;
        }",
        &[("__name", word(&item.name)), ("__effect", text(&effect)), ("__receipt", receipt)],
    ));
    if !effect.starts_with("sys/") {
        tokens.extend(node(item, &arguments, &executor)?);
    }
    Ok(tokens)
}

fn node(item: &Item, arguments: &[Argument], executor: &str) -> Result<TokenStream, Failure> {
    let mut settings = TokenStream::new();
    if let Some(argument) = named(arguments, "timeout_ms") {
        settings.extend(number_field(argument)?);
    }
    if let Some(argument) = named(arguments, "retry") {
        settings.extend(retry(argument)?);
    }
    for (name, choices) in
        [("delivery", ["at_least_once", "at_most_once"]), ("idempotency_scope", ["cell", "world"])]
    {
        if let Some(argument) = named(arguments, name) {
            settings.extend(field(name, json_text(&argument.one_of(&choices)?)));
        }
    }
    if let Some(argument) = named(arguments, "lane") {
        settings.extend(lane(item, argument)?);
    }
    Ok(fill(
        "::aos_sdk::air_node!(::aos_sdk::air::Json::Object(&[
            (\"$kind\", ::aos_sdk::air::Json::Text(\"defeffect\")),
            (\"$comment\", __comment),
            (\"name\", ::aos_sdk::air::Json::Text(<__name as ::aos_sdk::Effect>::EFFECT)),
            (\"params\", ::aos_sdk::air::Json::Text(<__name as ::aos_sdk::Named>::NAME)),
            (\"receipt\", ::aos_sdk::air::Json::Text(<<__name as ::aos_sdk::Effect>::Receipt as ::aos_sdk::Named>::NAME)),
            (\"impl\", ::aos_sdk::air::Json::Object(&[(\"executor\", __executor)])),
            __settings
        ]));",
        &[
            ("__name", word(&item.name)),
            ("__comment", comment(&item.doc())),
            ("__executor", json_text(executor)),
            ("__settings", settings),
        ],
    ))
}

/// `lane = "field"` or `lane("field", "other.inner")`: paths of the params.
fn lane(item: &Item, argument: &Argument) -> Result<TokenStream, Failure> {
    let Shape::Record(fields) = &item.shape else {
        return Err(Failure::at(argument.span, "lanes need params with fields"));
    };
    let mut paths = TokenStream::new();
    for path in arguments(argument.value.clone(), argument.span, &[])? {
        let text = path.text()?;
        let first = text.split('.').next().unwrap_or_default();
        if !fields.iter().any(|field| field.name == first) {
            let problem = format!("the params have no field `{first}`, where this lane begins");
            return Err(Failure::at(path.span, problem));
        }
        paths.extend(fill("__path,", &[("__path", json_text(&text))]));
    }
    if paths.is_empty() {
        return Err(Failure::at(argument.span, "expected `lane = \"field\"` or `lane(\"field\", …)`"));
    }
    Ok(field("lane", fill("::aos_sdk::air::Json::List(&[__paths])", &[("__paths", paths)])))
}

fn retry(argument: &Argument) -> Result<TokenStream, Failure> {
    let inside = arguments(argument.value.clone(), argument.span, &RETRY)?;
    let fields: Result<TokenStream, Failure> = inside.iter().map(number_field).collect();
    Ok(field("retry", fill("::aos_sdk::air::Json::Object(&[__fields])", &[("__fields", fields?)])))
}

/// `name = number` as a field of JSON.
pub fn number_field(argument: &Argument) -> Result<TokenStream, Failure> {
    let number = argument.number()?;
    let name = argument
        .name
        .as_deref()
        .ok_or_else(|| Failure::at(argument.span, "expected `name = number`"))?;
    Ok(field(name, code(&format!("::aos_sdk::air::Json::Number({number})"))))
}

/// A field of JSON, its value an expression.
pub fn field(name: &str, value: TokenStream) -> TokenStream {
    fill("(__name, __value),", &[("__name", text(name)), ("__value", value)])
}
