//! The blobs that a flow's values name (`spec/values.md`, V-70).

use alloc::string::String;
use alloc::vec::Vec;

use crate::air::Type;
use crate::cbor::{Reader, Stop};
use crate::schema::Schema;
use crate::types::{Hash, Set};

use super::history::Bytes;

/// Whether values of a type can name a blob.
pub(super) const fn has_hash(of: &Type) -> bool {
    match of {
        Type::Hash => true,
        Type::List(of) | Type::Set(of) | Type::Option(of) | Type::Noted { of, .. } => has_hash(of),
        Type::Map { key, value } => has_hash(key) || has_hash(value),
        Type::Record(parts) | Type::Variant(parts) => {
            let mut at = 0;
            while at < parts.len() {
                if has_hash(parts[at].1) {
                    return true;
                }
                at += 1;
            }
            false
        }
        Type::Ref(definition) => has_hash(&definition.of),
        _ => false,
    }
}

/// The set of hashes at the places of type `hash`, as canonical CBOR.
pub(super) fn find(values: &[(&Type, Option<Bytes>)]) -> Vec<u8> {
    let mut found = Set::new();
    for (of, bytes) in values {
        if let Some(bytes) = bytes {
            // A value that an earlier version of the code stored may be of another type.
            let _ = walk(of, &mut Reader::new(bytes), &mut found);
        }
    }
    let mut out = Vec::new();
    found.write(&mut out);
    out
}

fn walk(of: &Type, from: &mut Reader<'_>, found: &mut Set<Hash>) -> Result<(), Stop> {
    match of {
        Type::Hash => drop(found.insert(Hash::read(from)?)),
        Type::Noted { of, .. } => return walk(of, from, found),
        Type::Ref(definition) => return walk(&definition.of, from, found),
        Type::Option(of) if !from.is_null() => return walk(of, from, found),
        Type::Option(_) => {}
        Type::List(of) | Type::Set(of) => {
            for _ in 0..from.list()? {
                walk(of, from, found)?;
            }
        }
        Type::Map { key, value } => {
            for _ in 0..from.map()? {
                walk(key, from, found)?;
                walk(value, from, found)?;
            }
        }
        Type::Record(parts) => {
            for _ in 0..from.map()? {
                let name = String::from(from.text()?);
                match parts.iter().find(|(other, _)| *other == name) {
                    Some((_, of)) => walk(of, from, found)?,
                    None => return Err(from.stop("a field of the record before here")),
                }
            }
        }
        Type::Variant(parts) => {
            let (arm, has_value) = from.arm()?;
            if has_value {
                match parts.iter().find(|(other, _)| *other == arm) {
                    Some((_, of)) => walk(of, from, found)?,
                    None => drop(from.item()?),
                }
            }
        }
        _ => drop(from.item()?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[derive(Schema)]
    struct Page {
        title: String,
        picture: Option<Hash>,
        parts: Vec<Part>,
    }

    #[derive(Schema)]
    enum Part {
        Line,
        Text(String),
        Blob(Hash),
    }

    fn hash(digit: &str) -> Hash {
        Hash::parse(&format!("blake3:{}", digit.repeat(64))).unwrap()
    }

    #[test]
    fn the_hashes_of_a_value_are_found_by_their_type() {
        let page = Page {
            title: hash("1").text().into(),
            picture: Some(hash("3")),
            parts: vec![
                Part::Line,
                Part::Text("x".into()),
                Part::Blob(hash("2")),
                Part::Blob(hash("3")),
            ],
        };
        let bytes: Bytes = encode(&page).leak();

        let found = find(&[(&Page::TYPE, Some(bytes)), (&Page::TYPE, None)]);

        assert!(has_hash(&Page::TYPE) && !has_hash(&<Vec<String>>::TYPE));
        let found: Set<Hash> = decode(&found).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), [&hash("2"), &hash("3")]);
    }
}
