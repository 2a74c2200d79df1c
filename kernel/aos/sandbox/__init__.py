"""The sandbox: runs one step of a WASM module in a fresh instance (spec/sandbox.md)."""
