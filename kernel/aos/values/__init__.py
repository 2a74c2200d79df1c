"""Values: canonical CBOR, schemas, the JSON lens and hashes (spec/values.md)."""
