//! The probes of a test build on standard input and output, for tests without WASM. A request is an
//! operation and a length (`u32`, little-endian), then so many bytes; an answer is a length and
//! bytes.

use std::io::{Read, Write};

use aos_core::probes::probe;

fn main() -> std::io::Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut head = [0; 8];
    while input.read_exact(&mut head).is_ok() {
        let [operation, size] = [0, 4].map(|at| {
            u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes of a head"))
        });
        let mut request = vec![0; size as usize];
        input.read_exact(&mut request)?;
        let answer = probe(operation, &request).expect("the number of a probe");
        output.write_all(&(answer.len() as u32).to_le_bytes())?;
        output.write_all(&answer)?;
        output.flush()?;
    }
    Ok(())
}
