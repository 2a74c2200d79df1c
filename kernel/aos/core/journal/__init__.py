"""The parts of a journal: records, their bytes, frames, identities and signatures."""
