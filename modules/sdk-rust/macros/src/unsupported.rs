//! Types of Rust that AIR does not have, with the types to use instead.

use proc_macro::{TokenStream, TokenTree};

use crate::failure::Failure;
use crate::item::{Field, Inside, Item, Shape};

/// The failure of the first field or arm whose type cannot be in a schema, as far as its name shows
/// it. The trait `Schema` finds every other one, at the place where the derive uses it.
pub fn find(item: &Item) -> Option<Failure> {
    match &item.shape {
        Shape::Newtype(ty) => of_type(ty),
        Shape::Record(fields) => of_fields(fields),
        Shape::Variant(arms) => arms.iter().find_map(|arm| match &arm.inside {
            Inside::Unit => None,
            Inside::One(ty) => of_type(ty),
            Inside::Record(fields) => of_fields(fields),
        }),
    }
}

fn of_fields(fields: &[Field]) -> Option<Failure> {
    fields.iter().find_map(|field| of_type(&field.ty))
}

fn of_type(ty: &TokenStream) -> Option<Failure> {
    ty.clone().into_iter().find_map(|token| match token {
        TokenTree::Group(group) => of_type(&group.stream()),
        TokenTree::Ident(word) => {
            let instead = instead_of(&word.to_string())?;
            let message = format!("use {instead}: `{word}` is not a type of AIR");
            Some(Failure::at(word.span(), message))
        }
        _ => None,
    })
}

/// Only names that no author gives to a type. `u8` is not among them: `Vec<u8>` is bytes.
fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "f32" | "f64" => "`Decimal`, or a whole number of a smaller unit such as cents",
        "u16" | "u32" | "usize" => "`u64`",
        "i8" | "i16" | "i32" | "isize" => "`i64`",
        "u128" | "i128" => "`Decimal`, which has 34 digits, or `String`",
        "char" | "str" => "`String`",
        "BTreeMap" | "HashMap" => "`aos_sdk::Map<K, V>`",
        "BTreeSet" | "HashSet" => "`aos_sdk::Set<T>`",
        _ => return None,
    })
}
