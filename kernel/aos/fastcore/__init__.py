"""The second kernel: ``kernel/rust-core`` as one WASM module, and the calls into it."""
