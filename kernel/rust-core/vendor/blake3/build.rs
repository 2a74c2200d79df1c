//! The part of the crate's own build script that needs no C compiler: which of the implementations
//! in Rust exist for the target.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if arch == "x86" || arch == "x86_64" {
        for name in ["sse2", "sse41", "avx2"] {
            println!("cargo::rustc-cfg=blake3_{name}_rust");
        }
    }
    if arch == "wasm32" && features.split(',').any(|feature| feature == "simd128") {
        println!("cargo::rustc-cfg=blake3_wasm32_simd");
    }
}
