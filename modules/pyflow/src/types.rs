//! Types of AIR at run time: the type expressions that a program carries with it (PY-31).

use std::collections::HashMap;
use std::rc::Rc;

use aos_sdk::cbor::{Reader, Stop};

/// A type expression of AIR (`spec/values.md`, V-20).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Bool,
    Int,
    Nat,
    Dec128,
    Bytes,
    Text,
    Time,
    Duration,
    Hash,
    Uuid,
    Unit,
    List(Box<Type>),
    Set(Box<Type>),
    Option(Box<Type>),
    Map(Box<Type>, Box<Type>),
    /// The fields, ascending by the canonical bytes of their names.
    Record(Vec<(String, Type)>),
    /// The arms, in the same order.
    Variant(Vec<(String, Type)>),
    Ref(String),
}

/// The schemas of a program by their names.
#[derive(Clone, Debug, Default)]
pub struct Schemas(HashMap<String, Rc<Type>>);

const PLAIN: [(&str, Type); 11] = [
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("nat", Type::Nat),
    ("dec128", Type::Dec128),
    ("bytes", Type::Bytes),
    ("text", Type::Text),
    ("time", Type::Time),
    ("duration", Type::Duration),
    ("hash", Type::Hash),
    ("uuid", Type::Uuid),
    ("unit", Type::Unit),
];

impl Type {
    /// Read a type expression that was encoded as canonical CBOR, without `$comment`.
    pub fn read(from: &mut Reader<'_>) -> Result<Type, Stop> {
        if from.map()? != 1 {
            return Err(from.stop("one key of a type expression"));
        }
        let word = from.text()?;
        if let Some((_, plain)) = PLAIN.iter().find(|(name, _)| *name == word) {
            from.record(0)?;
            return Ok(plain.clone());
        }
        Ok(match word {
            "list" => Type::List(Box::new(Type::read(from)?)),
            "set" => Type::Set(Box::new(Type::read(from)?)),
            "option" => Type::Option(Box::new(Type::read(from)?)),
            "map" => {
                from.record(2)?;
                from.field(b"\x63key")?;
                let key = Type::read(from)?;
                from.field(b"\x65value")?;
                Type::Map(Box::new(key), Box::new(Type::read(from)?))
            }
            "record" => Type::Record(Type::read_parts(from)?),
            "variant" => Type::Variant(Type::read_parts(from)?),
            "ref" => Type::Ref(from.text()?.to_owned()),
            _ => return Err(from.stop("a type of AIR before here")),
        })
    }

    fn read_parts(from: &mut Reader<'_>) -> Result<Vec<(String, Type)>, Stop> {
        (0..from.map()?).map(|_| Ok((from.text()?.to_owned(), Type::read(from)?))).collect()
    }

    /// The word of the expression's key, for messages.
    pub fn word(&self) -> &str {
        match self {
            Type::List(_) => "list",
            Type::Set(_) => "set",
            Type::Option(_) => "option",
            Type::Map(..) => "map",
            Type::Record(_) => "record",
            Type::Variant(_) => "variant",
            Type::Ref(name) => name,
            plain => PLAIN.iter().find(|(_, one)| one == plain).map_or("type", |(word, _)| word),
        }
    }
}

impl Schemas {
    /// Read a map from names to type expressions.
    pub fn read(from: &mut Reader<'_>) -> Result<Schemas, Stop> {
        let mut schemas = Schemas::default();
        for _ in 0..from.map()? {
            let name = from.text()?.to_owned();
            schemas.0.insert(name, Rc::new(Type::read(from)?));
        }
        Ok(schemas)
    }

    pub fn insert(&mut self, name: &str, of: Type) {
        self.0.insert(name.to_owned(), Rc::new(of));
    }

    pub fn get(&self, name: &str) -> Option<Rc<Type>> {
        self.0.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Type, String> {
        let mut reader = Reader::new(bytes);
        let read = Type::read(&mut reader).and_then(|of| reader.end().map(|()| of));
        read.map_err(|_| format!("{:?}", reader.misfit()))
    }

    #[test]
    fn each_word_of_a_type_expression_is_read() {
        for (word, of) in &PLAIN {
            let bytes = [&[0xa1, 0x60 | word.len() as u8], word.as_bytes(), &[0xa0]].concat();
            assert_eq!(read(&bytes).as_ref(), Ok(of));
            assert_eq!(of.word(), *word);
        }
        let bytes = b"\xa1\x66record\xa1\x65cents\xa1\x63nat\xa0";
        assert_eq!(read(bytes), Ok(Type::Record(vec![("cents".to_owned(), Type::Nat)])));
    }

    #[test]
    fn an_unknown_word_and_a_second_key_are_refused() {
        assert_eq!(
            read(b"\xa1\x65float\xa0"),
            Err("byte 7: expected a type of AIR before here".into())
        );
        assert!(read(b"\xa2\x63int\xa0\x63nat\xa0").is_err());
    }
}
