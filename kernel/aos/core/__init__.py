"""The pure core: (state, input) -> records. No I/O, no clock, no randomness."""
