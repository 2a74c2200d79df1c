//! The common arguments of `#[workflow]` and `#[flow]`: name, key, module, entrypoint and settings.

use proc_macro::{Group, Ident, Span, TokenStream, TokenTree};

use crate::arguments::{Argument, arguments, first, named};
use crate::cursor::{Cursor, string};
use crate::effect::{field, number_field};
use crate::failure::Failure;
use crate::names;
use crate::schema::{comment, json_text, text};
use crate::template::{code, fill};

const LIMITS: [&str; 7] =
    ["fuel", "memory_bytes", "output_bytes", "state_bytes", "effects", "events", "keys"];
/// The exports that every module has already.
const TAKEN: [&str; 2] = ["memory", "alloc"];

pub struct Declaration {
    arguments: Vec<Argument>,
    pub name: String,
    pub module: String,
    pub entrypoint: Ident,
    pub key: Option<Key>,
}

/// A `key_schema`: its name, the type of its values, and its node where it is defined here.
pub struct Key {
    pub name: TokenStream,
    pub ty: TokenStream,
    node: TokenStream,
}

impl Declaration {
    /// Read `#[example("namespace/name@1", …)]` of a function; `known` are the names of arguments.
    pub fn read(
        attribute: TokenStream,
        example: &str,
        function: &Ident,
        known: &[&str],
    ) -> Result<Declaration, Failure> {
        let arguments = arguments(attribute, Span::call_site(), known)?;
        let Some(first) = first(&arguments)? else {
            let message = format!("expected `#[{example}(\"namespace/name@1\", …)]`");
            return Err(Failure::at(Span::call_site(), message));
        };
        let name = first.text()?;
        names::check(&name, first.span)?;
        let entrypoint = entrypoint(function, &arguments)?;
        let module = module(&name, &arguments)?;
        let key = named(&arguments, "key").map(key).transpose()?;
        Ok(Declaration { arguments, name, module, entrypoint, key })
    }

    pub fn argument(&self, name: &str) -> Option<&Argument> {
        named(&self.arguments, name)
    }

    /// The place of an argument, or of the whole attribute.
    pub fn span(&self, name: &str) -> Span {
        self.argument(name).map_or(Span::call_site(), |argument| argument.span)
    }

    /// The `defworkflow`, the `defmodule`, and the `defschema` of the key. `state` and `event` are
    /// names, `settings` further fields.
    pub fn nodes(
        &self,
        doc: &str,
        state: TokenStream,
        event: TokenStream,
        settings: TokenStream,
    ) -> TokenStream {
        let mut nodes = fill(
            "::aos_sdk::air_node!(::aos_sdk::air::Json::Object(&[
                (\"$kind\", ::aos_sdk::air::Json::Text(\"defworkflow\")),
                (\"$comment\", __comment),
                (\"name\", ::aos_sdk::air::Json::Text(__name)),
                (\"state\", ::aos_sdk::air::Json::Text(__state)),
                (\"event\", ::aos_sdk::air::Json::Text(__event)),
                (\"context\", ::aos_sdk::air::Json::Text(\"sys/WorkflowContext@1\")),
                __settings
                (\"impl\", ::aos_sdk::air::Json::Object(&[(\"module\", __module), (\"entrypoint\", __entrypoint)])),
            ]));
            ::aos_sdk::air_node!(::aos_sdk::log::NODE);
            ::aos_sdk::air_node!(::aos_sdk::air::Json::Object(&[
                (\"$kind\", ::aos_sdk::air::Json::Text(\"defmodule\")),
                (\"name\", __module),
                (\"runtime\", ::aos_sdk::air::Json::Object(&[
                    (\"kind\", ::aos_sdk::air::Json::Text(\"wasm\")),
                    (\"artifact\", ::aos_sdk::air::Json::Object(&[(\"kind\", ::aos_sdk::air::Json::Text(\"wasm_module\"))])),
                ])),
            ]));",
            &[
                ("__comment", comment(doc)),
                ("__name", text(&self.name)),
                ("__state", state),
                ("__event", event),
                ("__settings", settings),
                ("__module", json_text(&self.module)),
                ("__entrypoint", json_text(&self.entrypoint.to_string())),
            ],
        );
        nodes.extend(self.key.as_ref().map(|key| key.node.clone()));
        nodes
    }

    /// `annotations` and `key_schema` of the `defworkflow`.
    pub fn head_fields(&self) -> Result<TokenStream, Failure> {
        let annotations = match self.argument("annotations") {
            Some(argument) => json_name(argument.ty()?),
            None => code("::aos_sdk::log::SCHEMA"),
        };
        let mut fields = field("annotations", annotations);
        if let Some(key) = &self.key {
            let name = fill("::aos_sdk::air::Json::Text(__name)", &[("__name", key.name.clone())]);
            fields.extend(field("key_schema", name));
        }
        Ok(fields)
    }

    /// `effects_emitted`: those of `effects(…)`, and `more` that the author need not write.
    pub fn effects_field(&self, more: &[&str]) -> Result<TokenStream, Failure> {
        let mut names = self.effect_names("::aos_sdk::air::Json::Text(__name),")?;
        let listed = self.effect_names("__name,")?;
        for effect in more {
            names.extend(fill(
                "::aos_sdk::air::Json::text_beside(__effect, &[__listed]),",
                &[("__effect", text(effect)), ("__listed", listed.clone())],
            ));
        }
        let list = fill("::aos_sdk::air::Json::List(&[__names])", &[("__names", names)]);
        Ok(field("effects_emitted", list))
    }

    /// The name of each effect in `effects(…)`, within `piece`.
    pub fn effect_names(&self, piece: &str) -> Result<TokenStream, Failure> {
        let effects = self.types("effects", "effects(Charge, timer::Set)")?;
        let name = |ty| fill("<__type as ::aos_sdk::Effect>::EFFECT", &[("__type", ty)]);
        Ok(effects.into_iter().map(|ty| fill(piece, &[("__name", name(ty))])).collect())
    }

    /// The types in the parentheses of an argument; none without it.
    pub fn types(&self, name: &str, example: &str) -> Result<Vec<TokenStream>, Failure> {
        match self.argument(name) {
            None => Ok(Vec::new()),
            Some(argument) if argument.is_group => Ok(argument.items()),
            Some(argument) => Err(Failure::at(argument.span, format!("expected `{example}`"))),
        }
    }

    /// The arguments inside of `limits(…)`.
    pub fn limits(&self) -> Result<Option<Vec<Argument>>, Failure> {
        let read = |argument: &Argument| arguments(argument.value.clone(), argument.span, &LIMITS);
        self.argument("limits").map(read).transpose()
    }

    /// `limits` of the `defworkflow`, where there are any; `defaults` for those that are not said.
    pub fn limits_field(&self, defaults: &[(&str, u64)]) -> Result<TokenStream, Failure> {
        let said = self.limits()?;
        if said.is_none() && defaults.is_empty() {
            return Ok(TokenStream::new());
        }
        let said = said.unwrap_or_default();
        let mut fields = TokenStream::new();
        for limit in &said {
            fields.extend(number_field(limit)?);
        }
        for (name, number) in defaults.iter().filter(|(name, _)| named(&said, name).is_none()) {
            fields.extend(field(name, code(&format!("::aos_sdk::air::Json::Number({number})"))));
        }
        let object = fill("::aos_sdk::air::Json::Object(&[__limits])", &[("__limits", fields)]);
        Ok(field("limits", object))
    }

    /// A field that is one of these texts, where the argument is there.
    pub fn choice_field(&self, name: &str, choices: &[&str]) -> Result<TokenStream, Failure> {
        match self.argument(name) {
            Some(argument) => Ok(field(name, json_text(&argument.one_of(choices)?))),
            None => Ok(TokenStream::new()),
        }
    }
}

fn entrypoint(function: &Ident, arguments: &[Argument]) -> Result<Ident, Failure> {
    let (name, span) = match named(arguments, "entrypoint") {
        Some(argument) => (argument.text()?, argument.span),
        None => (function.to_string(), function.span()),
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

/// `"shop/OrderId@1"` (text), `"shop/OrderNumber@1" as u64`, or a type with a name.
fn key(argument: &Argument) -> Result<Key, Failure> {
    let mut cursor = Cursor::new(argument.value.clone(), argument.span);
    let span = cursor.span();
    let Some(name) = cursor.literal() else {
        let ty = argument.ty()?;
        let name = fill("<__type as ::aos_sdk::Named>::NAME", &[("__type", ty.clone())]);
        return Ok(Key { name, ty, node: TokenStream::new() });
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
        &[("__name", text(&name)), ("__type", ty.clone())],
    );
    Ok(Key { name: text(&name), ty, node })
}

/// A type's name as a piece of JSON.
pub fn json_name(ty: TokenStream) -> TokenStream {
    fill("::aos_sdk::air::Json::Text(<__type as ::aos_sdk::Named>::NAME)", &[("__type", ty)])
}

/// The tokens at another place of the author's text.
pub fn located(tokens: TokenStream, span: Span) -> TokenStream {
    let at = |mut token: TokenTree| {
        if let TokenTree::Group(group) = &token {
            token = Group::new(group.delimiter(), located(group.stream(), span)).into();
        }
        token.set_span(token.span().located_at(span));
        token
    };
    tokens.into_iter().map(at).collect()
}
