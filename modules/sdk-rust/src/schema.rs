//! The traits of types that a state, an event, params or an annotation can hold.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem::ManuallyDrop;

use crate::air::{Definition, Type};
use crate::cbor::{self, Misfit, Reader, SET_ASIDE_MAX, Stop};

/// A type of AIR: its type expression, and its values as canonical CBOR.
///
/// Derive it. A struct is a `record`, an enum a `variant`, a struct around one value is that
/// value's type under a name of its own. With `#[schema("namespace/Name@1")]` the type is a schema
/// of the manifest; without, it is written out where it is used.
///
/// ```
/// use aos_sdk::prelude::*;
///
/// /// One line of an order.
/// #[derive(Schema, Clone, Debug, PartialEq)]
/// #[schema("shop/Item@1")]
/// pub struct Item {
///     pub sku: String,
///     pub quantity: u64,
///     #[schema(rename = "type")]
///     pub kind: Option<Kind>,
/// }
///
/// #[derive(Schema, Clone, Debug, PartialEq)]
/// pub enum Kind {
///     Plain,
///     Fragile { value_cents: u64 },
///     Other(String),
/// }
///
/// let item = Item { sku: "tea".into(), quantity: 2, kind: Some(Kind::Plain) };
/// assert_eq!(decode::<Item>(&encode(&item)), Ok(item));
/// ```
///
/// | AIR | Rust |
/// |---|---|
/// | `bool`, `int`, `nat`, `text`, `bytes` | `bool`, `i64`, `u64`, `String`, `Vec<u8>` |
/// | `dec128`, `time`, `duration`, `hash`, `uuid` | [`Decimal`](crate::Decimal), [`Time`](crate::Time), [`Duration`](crate::Duration), [`Hash`](crate::Hash), [`Uuid`](crate::Uuid) |
/// | `unit`, `option` | `()`, `Option<T>` |
/// | `list`, `set`, `map` | `Vec<T>`, [`Set<T>`](crate::Set), [`Map<K, V>`](crate::Map) |
/// | `aos/Sealed@1` | [`Sealed`](crate::Sealed) |
/// | `option<text>` of a request in flight, and many of them | [`Pending<E>`](crate::Pending), [`PendingSet<K, E>`](crate::PendingSet) |
#[diagnostic::on_unimplemented(
    message = "add `#[derive(Schema)]` to `{Self}`, or use a type that AIR has: `{Self}` is not a type of AIR",
    label = "not a type of AIR",
    note = "whole numbers are `u64` (nat) and `i64` (int), text is `String`, bytes are `Vec<u8>`, decimals are `Decimal`",
    note = "lists are `Vec<T>`, sets and maps are `aos_sdk::Set<T>` and `aos_sdk::Map<K, V>`",
    note = "a type of your own needs `#[derive(Schema)]`"
)]
pub trait Schema: Sized {
    /// The type expression: a ref for a type with a name.
    const TYPE: Type;

    /// Append the value's canonical bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// Read one value. Bytes that are not canonical, or not of the type, are a misfit.
    fn read(from: &mut Reader<'_>) -> Result<Self, Stop>;

    /// The order of the canonical bytes, which is that of sets and maps.
    fn order(&self, other: &Self) -> Ordering {
        encode(self).cmp(&encode(other))
    }
}

/// A type with a name: a schema of the manifest. `#[schema("namespace/Name@1")]` next to the
/// derive makes one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a schema of the manifest: it has no name",
    label = "needs a name",
    note = "write `#[schema(\"namespace/Name@1\")]` below its `#[derive(Schema)]`"
)]
pub trait Named: Schema {
    const NAME: &'static str;
    const DEFINITION: Definition;
}

/// The types that the keys of a map may have: `u64`, `i64`, `String`, `Uuid`, `Hash`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a map",
    label = "not a key",
    note = "keys are `u64`, `i64`, `String`, `Uuid` or `Hash`"
)]
pub trait Key: Schema {}

/// The canonical bytes of a value.
pub fn encode<T: Schema>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.write(&mut out);
    out
}

/// The value that fills `bytes` exactly.
pub fn decode<T: Schema>(bytes: &[u8]) -> Result<T, Misfit> {
    whole(bytes, T::read)
}

/// The value that `read` finds in `bytes`, if it uses all of them.
pub(crate) fn whole<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Stop>,
) -> Result<T, Misfit> {
    let mut reader = Reader::new(bytes);
    match read(&mut reader) {
        Ok(value) if reader.end().is_ok() => Ok(value),
        _ => Err(reader.misfit()),
    }
}

/// Text first by its length: the head of its canonical bytes comes first.
pub(crate) fn text_order(one: &str, other: &str) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

impl Schema for bool {
    const TYPE: Type = Type::Bool;

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_bool(*self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<bool, Stop> {
        from.bool()
    }
}

impl Schema for u64 {
    const TYPE: Type = Type::Nat;

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_nat(*self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<u64, Stop> {
        from.nat()
    }

    fn order(&self, other: &u64) -> Ordering {
        self.cmp(other)
    }
}

impl Schema for i64 {
    const TYPE: Type = Type::Int;

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_int(*self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<i64, Stop> {
        from.int()
    }

    /// 0, 1, 2 … and then -1, -2 …
    fn order(&self, other: &i64) -> Ordering {
        let place = |number: i64| (number < 0, number ^ (number >> 63));
        place(*self).cmp(&place(*other))
    }
}

impl Schema for String {
    const TYPE: Type = Type::Text;

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_text(self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<String, Stop> {
        from.text().map(String::from)
    }

    fn order(&self, other: &String) -> Ordering {
        text_order(self, other)
    }
}

impl Key for u64 {}
impl Key for i64 {}
impl Key for String {}

impl Schema for Vec<u8> {
    const TYPE: Type = Type::Bytes;

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_bytes(self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Vec<u8>, Stop> {
        from.bytes().map(Vec::from)
    }
}

impl Schema for () {
    const TYPE: Type = Type::Unit;

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_null(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<(), Stop> {
        from.null()
    }
}

impl<T: Schema> Schema for Vec<T> {
    const TYPE: Type = Type::List(&T::TYPE);

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_list(self.len(), out);
        self.iter().for_each(|item| item.write(out));
    }

    fn read(from: &mut Reader<'_>) -> Result<Vec<T>, Stop> {
        let length = from.list()?;
        let mut items = ManuallyDrop::new(Vec::with_capacity(length.min(SET_ASIDE_MAX)));
        for _ in 0..length {
            items.push(T::read(from)?);
        }
        Ok(ManuallyDrop::into_inner(items))
    }
}

impl<T: Schema> Schema for Option<T> {
    const TYPE: Type = {
        T::TYPE.assert_not_null();
        Type::Option(&T::TYPE)
    };

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.write(out),
            None => cbor::write_null(out),
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<T>, Stop> {
        match from.is_null() {
            true => Ok(None),
            false => T::read(from).map(Some),
        }
    }
}

impl<T: Schema> Schema for Box<T> {
    const TYPE: Type = T::TYPE;

    fn write(&self, out: &mut Vec<u8>) {
        (**self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Box<T>, Stop> {
        T::read(from).map(Box::new)
    }

    fn order(&self, other: &Box<T>) -> Ordering {
        (**self).order(other)
    }
}
