"""Plan steps of linear workflows for workers (spec/linear.md, L-30 to L-36)."""
