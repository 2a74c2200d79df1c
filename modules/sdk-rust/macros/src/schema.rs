//! `#[derive(Schema)]`, `#[derive(Event)]`: type expression and codec.

use proc_macro::{Ident, Literal, Span, TokenStream, TokenTree};

use crate::arguments::first;
use crate::failure::Failure;
use crate::item::{Arm, Field, Inside, Item, Shape};
use crate::names;
use crate::template::{code, fill};
use crate::unsupported;

pub fn derive(item: &Item) -> Result<TokenStream, Failure> {
    implement(item, schema_name(item)?.as_deref(), ArmsAre::Any)
}

pub fn derive_event(item: &Item) -> Result<TokenStream, Failure> {
    let Shape::Variant(arms) = &item.shape else {
        let message =
            "an event of several arms is an enum; one that is a record is `#[derive(Schema)]`";
        return Err(Failure::at(item.name.span(), message));
    };
    for arm in arms {
        if !matches!(arm.inside, Inside::One(_)) {
            let message = "an arm of an event holds one schema with a name, as in `Placed(Placed)`";
            return Err(Failure::at(arm.ident.span(), message));
        }
    }
    let Some(name) = schema_name(item)? else {
        return Err(Failure::at(
            item.name.span(),
            "an event needs a name: `#[schema(\"namespace/Name@1\")]`",
        ));
    };
    let mut tokens = implement(item, Some(&name), ArmsAre::Named)?;
    if unsupported::find(item).is_some() {
        return Ok(tokens);
    }
    tokens.extend(fill(
        "const _: () = <__name as ::aos_sdk::Schema>::TYPE.assert_event();",
        &[("__name", word(&item.name))],
    ));
    Ok(tokens)
}

fn schema_name(item: &Item) -> Result<Option<String>, Failure> {
    let Some(arguments) = item.arguments("schema", &[])? else { return Ok(None) };
    let Some(argument) = first(&arguments)? else {
        return Err(Failure::at(item.name.span(), "expected `#[schema(\"namespace/Name@1\")]`"));
    };
    let name = argument.text()?;
    names::check(&name, argument.span)?;
    Ok(Some(name))
}

/// The types that an arm may hold.
#[derive(Clone, Copy)]
pub enum ArmsAre {
    Any,
    /// Schemas with names, as the arms of an event.
    Named,
}

/// `Schema`, and `Named` with its node where there is a name.
pub fn implement(
    item: &Item,
    name: Option<&str>,
    arms_are: ArmsAre,
) -> Result<TokenStream, Failure> {
    if let Some(failure) = unsupported::find(item) {
        let mut tokens = failure.into_tokens();
        tokens.extend(stub(item, name));
        return Ok(tokens);
    }
    let expression = expression(&item.shape, arms_are);
    let (write, read, order) = codec(item);
    let mut tokens = fill(
        "#[automatically_derived]
        impl ::aos_sdk::Schema for __name {
            const TYPE: ::aos_sdk::air::Type = __expression;
            fn write(&self, __out: &mut ::aos_sdk::alloc::vec::Vec<u8>) { __write }
            fn read(__from: &mut ::aos_sdk::cbor::Reader<'_>) -> ::core::result::Result<Self, ::aos_sdk::cbor::Stop> { __read }
            __order
        }",
        &[
            ("__name", word(&item.name)),
            ("__expression", match name {
                Some(_) => code("::aos_sdk::air::Type::Ref(&<Self as ::aos_sdk::Named>::DEFINITION)"),
                None => expression.clone(),
            }),
            ("__write", write),
            ("__read", read),
            ("__order", order),
        ],
    );
    if let Some(name) = name {
        tokens.extend(fill(
            "#[automatically_derived]
            impl ::aos_sdk::Named for __name {
                const NAME: &'static str = __text;
                const DEFINITION: ::aos_sdk::air::Definition = ::aos_sdk::air::Definition { name: __text, of: __expression };
            }",
            &[("__name", word(&item.name)), ("__text", text(name)), ("__expression", expression)],
        ));
        tokens.extend(node(item, name));
    }
    Ok(tokens)
}

/// The traits without a codec, so that the failure is the only error: the code that uses the type
/// still compiles.
fn stub(item: &Item, name: Option<&str>) -> TokenStream {
    let mut tokens = fill(
        "#[automatically_derived]
        impl ::aos_sdk::Schema for __name {
            const TYPE: ::aos_sdk::air::Type = ::aos_sdk::air::Type::Unit;
            fn write(&self, _: &mut ::aos_sdk::alloc::vec::Vec<u8>) {}
            fn read(__from: &mut ::aos_sdk::cbor::Reader<'_>) -> ::core::result::Result<Self, ::aos_sdk::cbor::Stop> {
                ::core::result::Result::Err(__from.stop(\"a type of AIR\"))
            }
        }",
        &[("__name", word(&item.name))],
    );
    if let Some(name) = name {
        tokens.extend(fill(
            "#[automatically_derived]
            impl ::aos_sdk::Named for __name {
                const NAME: &'static str = __text;
                const DEFINITION: ::aos_sdk::air::Definition = ::aos_sdk::air::Definition { name: __text, of: ::aos_sdk::air::Type::Unit };
            }",
            &[("__name", word(&item.name)), ("__text", text(name))],
        ));
    }
    tokens
}

/// The `defschema`. Only the kernel defines its own schemas.
fn node(item: &Item, name: &str) -> TokenStream {
    if name.starts_with("sys/") {
        return TokenStream::new();
    }
    fill(
        "::aos_sdk::air_node!(::aos_sdk::air::Json::Object(&[
            (\"$kind\", ::aos_sdk::air::Json::Text(\"defschema\")),
            (\"$comment\", __comment),
            (\"name\", ::aos_sdk::air::Json::Text(__text)),
            (\"type\", ::aos_sdk::air::Json::Type(&<__name as ::aos_sdk::Named>::DEFINITION.of)),
        ]));",
        &[
            ("__comment", comment(&item.doc())),
            ("__text", text(name)),
            ("__name", word(&item.name)),
        ],
    )
}

/// A doc comment as a piece of JSON.
pub fn comment(doc: &str) -> TokenStream {
    match doc {
        "" => code("::aos_sdk::air::Json::Absent"),
        _ => json_text(doc),
    }
}

pub fn json_text(words: &str) -> TokenStream {
    fill("::aos_sdk::air::Json::Text(__words)", &[("__words", text(words))])
}

fn expression(shape: &Shape, arms_are: ArmsAre) -> TokenStream {
    match shape {
        Shape::Newtype(ty) => type_of(ty),
        Shape::Record(fields) => record_expression(fields),
        Shape::Variant(arms) => {
            let parts = arms.iter().map(|arm| {
                let inside = match &arm.inside {
                    Inside::Unit => code("::aos_sdk::air::Type::Unit"),
                    Inside::One(ty) if matches!(arms_are, ArmsAre::Named) => fill(
                        "::aos_sdk::air::Type::Ref(&<__type as ::aos_sdk::Named>::DEFINITION)",
                        &[("__type", ty.clone())],
                    ),
                    Inside::One(ty) => type_of(ty),
                    Inside::Record(fields) => record_expression(fields),
                };
                part(&arm.name, inside)
            });
            let checks = arms.iter().filter_map(|arm| match &arm.inside {
                Inside::One(ty) if matches!(arms_are, ArmsAre::Any) => {
                    Some(fill("__type.assert_has_value();", &[("__type", type_of(ty))]))
                }
                _ => None,
            });
            fill(
                "{ __checks ::aos_sdk::air::Type::Variant(&[__parts]) }",
                &[("__checks", checks.collect()), ("__parts", parts.collect())],
            )
        }
    }
}

fn record_expression(fields: &[Field]) -> TokenStream {
    let parts = fields.iter().map(|field| part(&field.name, type_of(&field.ty)));
    fill("::aos_sdk::air::Type::Record(&[__parts])", &[("__parts", parts.collect())])
}

fn type_of(ty: &TokenStream) -> TokenStream {
    fill("<__type as ::aos_sdk::Schema>::TYPE", &[("__type", ty.clone())])
}

fn part(name: &str, expression: TokenStream) -> TokenStream {
    fill("(__text, &__expression),", &[("__text", text(name)), ("__expression", expression)])
}

/// The bodies of `write` and `read`, and `order` where there is a shorter way than by bytes.
fn codec(item: &Item) -> (TokenStream, TokenStream, TokenStream) {
    match &item.shape {
        Shape::Newtype(ty) => (
            fill(
                "<__type as ::aos_sdk::Schema>::write(&self.0, __out);",
                &[("__type", ty.clone())],
            ),
            fill(
                "::core::result::Result::Ok(Self(<__type as ::aos_sdk::Schema>::read(__from)?))",
                &[("__type", ty.clone())],
            ),
            code(
                "fn order(&self, __other: &Self) -> ::core::cmp::Ordering {
                    ::aos_sdk::Schema::order(&self.0, &__other.0)
                }",
            ),
        ),
        Shape::Record(fields) => {
            let places = fields
                .iter()
                .map(|field| fill("&self.__field", &[("__field", word(&field.ident))]));
            let (read, built) = read_record(fields);
            let built = fill("::core::result::Result::Ok(Self { __built })", &[("__built", built)]);
            (
                write_record(fields, &places.collect::<Vec<_>>()),
                [read, built].into_iter().collect(),
                TokenStream::new(),
            )
        }
        Shape::Variant(arms) => {
            let write = arms.iter().map(write_arm).collect();
            let read = arms.iter().map(read_arm).collect();
            let expected = format!("an arm of {} before here", item.name);
            (
                fill("match self { __arms }", &[("__arms", write)]),
                fill(
                    "match __from.arm()? { __arms _ => ::core::result::Result::Err(__from.stop(__expected)) }",
                    &[("__arms", read), ("__expected", text(&expected))],
                ),
                TokenStream::new(),
            )
        }
    }
}

/// The fields in the order of their canonical bytes, each with its place in the source.
fn sorted(fields: &[Field]) -> Vec<(usize, Vec<u8>)> {
    let mut keys: Vec<_> =
        fields.iter().map(|field| names::encoded(&field.name)).enumerate().collect();
    keys.sort_by(|(_, one), (_, other)| one.cmp(other));
    keys
}

/// `places` are expressions that borrow the fields.
fn write_record(fields: &[Field], places: &[TokenStream]) -> TokenStream {
    // Head and first key are one piece.
    let mut before = head(0xa0, fields.len());
    let mut tokens = TokenStream::new();
    for (index, key) in sorted(fields) {
        before.extend_from_slice(&key);
        tokens.extend(fill(
            "__out.extend_from_slice(__bytes); <__type as ::aos_sdk::Schema>::write(__place, __out);",
            &[
                ("__bytes", bytes(&before)),
                ("__type", fields[index].ty.clone()),
                ("__place", places[index].clone()),
            ],
        ));
        before.clear();
    }
    if fields.is_empty() {
        tokens.extend(fill("__out.extend_from_slice(__bytes);", &[("__bytes", bytes(&before))]));
    }
    tokens
}

/// The head of a map with so many entries.
fn head(major: u8, count: usize) -> Vec<u8> {
    match count {
        0..=23 => vec![major | count as u8],
        24..=255 => vec![major | 24, count as u8],
        _ => vec![major | 25, (count >> 8) as u8, count as u8],
    }
}

/// Statements that read the fields, and the inside of the braces that build the value.
///
/// What was read before a misfit is not dropped: nothing is freed in a step, and the code that drops
/// it would make the module larger.
fn read_record(fields: &[Field]) -> (TokenStream, TokenStream) {
    let count = TokenTree::from(Literal::usize_unsuffixed(fields.len()));
    let mut read = fill("__from.record(__count)?;", &[("__count", TokenStream::from(count))]);
    for (index, key) in sorted(fields) {
        read.extend(fill(
            "__from.field(__bytes)?;
            let __local = ::core::mem::ManuallyDrop::new(<__type as ::aos_sdk::Schema>::read(__from)?);",
            &[
                ("__bytes", bytes(&key)),
                ("__local", local(index)),
                ("__type", fields[index].ty.clone()),
            ],
        ));
    }
    let built = fields.iter().enumerate().map(|(index, field)| {
        fill(
            "__field: ::core::mem::ManuallyDrop::into_inner(__local),",
            &[("__field", word(&field.ident)), ("__local", local(index))],
        )
    });
    (read, built.collect())
}

fn write_arm(arm: &Arm) -> TokenStream {
    let (pattern, inside) = match &arm.inside {
        Inside::Unit => (TokenStream::new(), TokenStream::new()),
        Inside::One(ty) => (
            code("(__value)"),
            fill(
                "<__type as ::aos_sdk::Schema>::write(__value, __out);",
                &[("__type", ty.clone())],
            ),
        ),
        Inside::Record(fields) => {
            let places: Vec<_> = (0..fields.len()).map(local).collect();
            let pattern = fields.iter().zip(&places).map(|(field, place)| {
                fill("__field: __local,", &[("__field", word(&field.ident)), ("__local", place.clone())])
            });
            (fill("{ __fields }", &[("__fields", pattern.collect())]), write_record(fields, &places))
        }
    };
    fill(
        "Self::__arm __pattern => { ::aos_sdk::cbor::write_arm(__tag, __is_valued, __out); __inside }",
        &[
            ("__arm", word(&arm.ident)),
            ("__pattern", pattern),
            ("__tag", text(&arm.name)),
            ("__is_valued", truth(!matches!(arm.inside, Inside::Unit))),
            ("__inside", inside),
        ],
    )
}

fn read_arm(arm: &Arm) -> TokenStream {
    let name = ("__arm", word(&arm.ident));
    let inside = match &arm.inside {
        Inside::Unit => fill("Self::__arm", &[name]),
        Inside::One(ty) => fill(
            "Self::__arm(<__type as ::aos_sdk::Schema>::read(__from)?)",
            &[name, ("__type", ty.clone())],
        ),
        Inside::Record(fields) => {
            let (read, built) = read_record(fields);
            fill(
                "{ __read Self::__arm { __built } }",
                &[name, ("__read", read), ("__built", built)],
            )
        }
    };
    fill(
        "(__tag, __is_valued) => ::core::result::Result::Ok(__inside),",
        &[
            ("__tag", text(&arm.name)),
            ("__is_valued", truth(!matches!(arm.inside, Inside::Unit))),
            ("__inside", inside),
        ],
    )
}

fn truth(truth: bool) -> TokenStream {
    code(if truth { "true" } else { "false" })
}

/// The name of a field's value while it is read or written.
fn local(index: usize) -> TokenStream {
    word(&Ident::new(&format!("__field_{index}"), Span::mixed_site()))
}

pub fn word(ident: &Ident) -> TokenStream {
    TokenStream::from(TokenTree::from(ident.clone()))
}

pub fn text(text: &str) -> TokenStream {
    TokenStream::from(TokenTree::from(Literal::string(text)))
}

fn bytes(bytes: &[u8]) -> TokenStream {
    TokenStream::from(TokenTree::from(Literal::byte_string(bytes)))
}
