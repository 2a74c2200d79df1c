"""What the SDKs cost: the same workflow by hand, in Rust and in AssemblyScript."""
