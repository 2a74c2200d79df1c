"""Check a history: verify, replay, what-ifs, proofs, reports (spec/audit.md). Nothing prints."""
