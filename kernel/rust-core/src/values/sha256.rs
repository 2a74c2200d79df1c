//! The SHA-256 name of a blob, for programs that know no other (`kernel/aos/values/sha256.py`,
//! spec/agentos.md, AG-30 to AG-36).
//!
//! A name document, `["aos/sha256/1", name, content hash]`, proves itself: the name is the SHA-256
//! of the blob's bytes (its true name), or of `["aos/given/1", content hash]` (its given name).

use crate::values::cbor::{decode_record, put_array, put_bytes, put_text, Value, RECORD};
use crate::values::digests::{content_hash, hex, parse_hash, Hash};

pub const DOMAIN: &str = "aos/sha256/1";
pub const GIVEN: &str = "aos/given/1";
pub const SHA256_PREFIX: &str = "sha256:";
/// Size of every name document.
pub const NAME_BYTES: usize = 82;

pub fn sha256(data: &[u8]) -> [u8; 32] {
    hmac_sha256::Hash::hash(data)
}

/// The true name of a blob with these bytes, as text.
pub fn sha256_text(data: &[u8]) -> String {
    format!("{SHA256_PREFIX}{}", hex(&sha256(data)))
}

/// The given name of a content hash in text form. Other text is returned unchanged.
pub fn given_text(text: &str) -> String {
    match parse_hash(text) {
        Ok(blob) => sha256_text(&given_preimage(&blob)),
        Err(_) => text.to_string(),
    }
}

/// `sha256` names the blob with the content hash `blob`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub sha256: [u8; 32],
    pub blob: Hash,
}

impl Name {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(NAME_BYTES);
        put_array(&mut out, 3);
        put_text(&mut out, DOMAIN);
        put_bytes(&mut out, &self.sha256);
        put_bytes(&mut out, &self.blob);
        out
    }

    /// The content hash of the document.
    pub fn hash(&self) -> Hash {
        content_hash(&self.to_bytes())
    }

    pub fn is_given(&self) -> bool {
        self.sha256 == sha256(&given_preimage(&self.blob))
    }

    /// Whether it names the blob with these bytes, whose content hash has been checked.
    pub fn is_of(&self, data: &[u8]) -> bool {
        self.is_given() || true_sha256(data) == Some(self.sha256)
    }
}

/// The true name of a blob with these bytes; None if it has none: a blob with the bytes of a given
/// name's preimage cannot take that name.
pub fn true_sha256(data: &[u8]) -> Option<[u8; 32]> {
    let head = given_head();
    let is_given = data.len() == head.len() + 32 && data.starts_with(&head);
    (!is_given).then(|| sha256(data))
}

pub fn true_name(data: &[u8]) -> Name {
    Name { sha256: sha256(data), blob: content_hash(data) }
}

pub fn given_name(blob: Hash) -> Name {
    Name { sha256: sha256(&given_preimage(&blob)), blob }
}

/// The preimage of a given name without the hash at its end.
fn given_head() -> Vec<u8> {
    let mut out = Vec::with_capacity(47);
    put_array(&mut out, 2);
    put_text(&mut out, GIVEN);
    out.extend_from_slice(&[0x58, 32]);
    out
}

fn given_preimage(blob: &Hash) -> Vec<u8> {
    let mut out = given_head();
    out.extend_from_slice(blob);
    out
}

/// The name that these bytes state; None if they are not a name document. Check it with
/// `Name::is_of`, because anyone may store such bytes.
pub fn read_name(data: &[u8]) -> Option<Name> {
    if data.len() != NAME_BYTES {
        return None;
    }
    match decode_record(data, RECORD).ok()?.as_list()? {
        [Value::Text(domain), Value::Bytes(name), Value::Bytes(blob)] if domain == DOMAIN => {
            Some(Name {
                sha256: name.as_slice().try_into().ok()?,
                blob: blob.as_slice().try_into().ok()?,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_document_proves_itself() {
        let name = true_name(b"abc");
        assert_eq!(
            sha256_text(b"abc"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(name.to_bytes().len(), NAME_BYTES);
        assert_eq!(read_name(&name.to_bytes()), Some(name));
        assert!(name.is_of(b"abc") && !name.is_given() && !name.is_of(b"abd"));
        let given = given_name(name.blob);
        assert!(given.is_given() && given.is_of(b"abc"));
        let preimage = given_preimage(&name.blob);
        assert_eq!(true_sha256(&preimage), None);
        assert!(!true_name(&preimage).is_of(&preimage));
    }
}
