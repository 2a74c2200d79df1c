"""Proofs: make one portable file about a record, an effect or a cell, and check it anywhere."""
