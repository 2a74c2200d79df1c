//! The events that reach a workflow: `Placed by "order_id"`, `Cancelled by "order_id" creates = false`.

use proc_macro::{Span, TokenStream, TokenTree};

use crate::arguments::Argument;
use crate::cursor::{Cursor, string};
use crate::declaration::json_name;
use crate::failure::Failure;
use crate::schema::{json_text, text};
use crate::template::{code, fill};

pub struct Route {
    /// Of the event.
    pub ty: TokenStream,
    /// Where in the event the key is.
    pub key_field: Option<String>,
    creates: bool,
}

/// The routes in the parentheses of an argument.
pub fn routes(argument: &Argument, is_keyed: bool) -> Result<Vec<Route>, Failure> {
    argument.items().into_iter().map(|item| route(item, argument.span, is_keyed)).collect()
}

fn route(item: TokenStream, around: Span, is_keyed: bool) -> Result<Route, Failure> {
    let mut cursor = Cursor::new(item, around);
    let span = cursor.span();
    let mut ty: Vec<TokenTree> = Vec::new();
    while !cursor.at_end() && !cursor.is_word("by") && !cursor.is_word("creates") {
        ty.extend(cursor.next());
    }
    let by = cursor.take_word("by");
    let key_field = if by { cursor.literal().and_then(|literal| string(&literal)) } else { None };
    let creates = creates(&mut cursor);
    let (Some(creates), false, false, true) =
        (creates, ty.is_empty(), by && key_field.is_none(), cursor.at_end())
    else {
        return Err(Failure::at(
            span,
            "expected `Event by \"field\"`, or `Event` for a workflow without a key, and `creates = false` after it for existing instances only",
        ));
    };
    match (&key_field, is_keyed) {
        (None, true) => Err(Failure::at(
            span,
            "the workflow has a key: say in which field of the event it is, `by \"field\"`",
        )),
        (Some(_), false) => {
            Err(Failure::at(span, "the workflow has no key: say `key = …` or leave out `by`"))
        }
        _ => Ok(Route { ty: ty.into_iter().collect(), key_field, creates }),
    }
}

/// `creates = true` or `creates = false`, true if it is left out; None for anything else.
fn creates(cursor: &mut Cursor) -> Option<bool> {
    if !cursor.take_word("creates") {
        return Some(true);
    }
    if !cursor.take_punct('=') {
        return None;
    }
    if cursor.take_word("false") {
        return Some(false);
    }
    cursor.take_word("true").then_some(true)
}

impl Route {
    pub fn subscription(&self, workflow: &str) -> TokenStream {
        let event = json_name(self.ty.clone());
        subscription(event, workflow, self.key_field.as_deref(), self.creates)
    }
}

/// One line; `event` is a piece of JSON.
pub fn subscription(
    event: TokenStream,
    workflow: &str,
    key_field: Option<&str>,
    creates: bool,
) -> TokenStream {
    fill(
        "::aos_sdk::air::Json::Object(&[
            (\"$kind\", ::aos_sdk::air::Json::Text(\"subscription\")),
            (\"event\", __event),
            (\"workflow\", ::aos_sdk::air::Json::Text(__workflow)),
            (\"key_field\", __key_field),
            (\"creates\", __creates),
        ]),",
        &[
            ("__event", event),
            ("__workflow", text(workflow)),
            (
                "__key_field",
                key_field.map_or_else(|| code("::aos_sdk::air::Json::Absent"), json_text),
            ),
            (
                "__creates",
                code(match creates {
                    false => "::aos_sdk::air::Json::Bool(false)",
                    true => "::aos_sdk::air::Json::Absent",
                }),
            ),
        ],
    )
}

/// All lines in one piece, so that their order holds.
pub fn subscriptions(lines: TokenStream) -> TokenStream {
    fill("::aos_sdk::air_node!(::aos_sdk::air::Json::Lines(&[__lines]));", &[("__lines", lines)])
}
