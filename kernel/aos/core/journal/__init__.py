"""What a journal is made of: records, their bytes, frames, identities, signatures."""
