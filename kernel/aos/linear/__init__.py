"""Linear step plans outside of their module: the events of starts and results, and the
plan steps that can be claimed (spec/linear.md)."""
