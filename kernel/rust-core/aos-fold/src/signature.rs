//! Whether a signature is valid (spec/journal.md, J-34; `kernel/aos/core/journal/signing.py`).

use ed25519_compact::{PublicKey, Signature};

/// Whether `signature` is this key's over `message`, by exactly the rules of libsodium. Keys and
/// `R` of small order and whatever is not in canonical form sign nothing.
pub fn is_signed(message: &[u8], signature: &[u8], public_key: &[u8]) -> bool {
    match (Signature::from_slice(signature), PublicKey::from_slice(public_key)) {
        (Ok(signature), Ok(key)) => key.verify(message, &signature).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aos_core::values::cbor::{decode_record, Value, RECORD};

    /// Made by tests/fastcore/signature_vectors.py, with the answers of the reference.
    const VECTORS: &[u8] = include_bytes!("../../tests/vectors/signatures.cbor");

    #[test]
    fn signatures_are_valid_exactly_if_libsodium_accepts_them() {
        let vectors = decode_record(VECTORS, RECORD).expect("canonical CBOR");
        let vectors = vectors.as_list().expect("a list");
        assert!(vectors.len() > 80);
        for vector in vectors {
            let [name, message, signature, key, valid] = vector.as_list().expect("a row") else {
                panic!("expected five columns");
            };
            let bytes = |value: &Value| value.as_bytes().expect("bytes").to_vec();
            assert_eq!(
                Value::Bool(is_signed(&bytes(message), &bytes(signature), &bytes(key))),
                *valid,
                "{name:?}"
            );
        }
    }
}
