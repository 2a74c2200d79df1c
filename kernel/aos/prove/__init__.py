"""Check a history: verify, replay, shadow, proofs, reports (spec/audit.md). Nothing prints."""
