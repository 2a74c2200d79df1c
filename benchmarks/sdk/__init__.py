"""Measure the cost of the SDKs: the same workflow by hand, in Rust and in AssemblyScript."""
