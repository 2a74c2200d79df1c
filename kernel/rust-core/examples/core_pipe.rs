//! The core over a pipe, for tests of a native build: `operations` by standard input and output.
//!
//! A message is a number (`u32`), a size (`u32`) and so many bytes. The host sends operations, and
//! the core their answers, number ANSWER. While an operation runs, the core may send READ, FIND,
//! ASK (the first four bytes are the question) or PUT, and the host sends a status with what it gives.

use std::io::{Read, Write};
use std::rc::Rc;

use aos_core::journal::ports::{Blobs, Find, Judge, Sink, Verify};
use aos_core::operations::{Core, Host};
use aos_core::values::digests::Hash;
use aos_core::values::errors::{Failure, Outcome};

const ANSWER: u32 = 0;
const READ: u32 = 1;
const FIND: u32 = 2;
const ASK: u32 = 3;
const PUT: u32 = 4;

fn send(number: u32, data: &[u8]) {
    let mut out = std::io::stdout().lock();
    let head = [number.to_le_bytes(), (data.len() as u32).to_le_bytes()].concat();
    out.write_all(&head).and_then(|()| out.write_all(data)).expect("the host reads");
    out.flush().expect("the host reads");
}

fn receive() -> Option<(u32, Vec<u8>)> {
    let mut input = std::io::stdin().lock();
    let mut head = [0; 8];
    input.read_exact(&mut head).ok()?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let mut data = vec![0; word(4) as usize];
    input.read_exact(&mut data).ok()?;
    Some((word(0), data))
}

/// The host's answer; None if it is absent.
fn given(number: u32, request: &[u8]) -> Outcome<Option<Vec<u8>>> {
    send(number, request);
    match receive().expect("the host answers") {
        (0, data) => Ok(Some(data)),
        (1, _) => Ok(None),
        (2, text) => Err(Failure::Damage(String::from_utf8_lossy(&text).into_owned())),
        (4, _) => Err(Failure::Erased),
        _ => Err(Failure::Host),
    }
}

fn asked(question: u32, parts: &[&[u8]]) -> Outcome<Option<Vec<u8>>> {
    let mut request = question.to_le_bytes().to_vec();
    for part in parts {
        request.extend((part.len() as u32).to_le_bytes());
        request.extend_from_slice(part);
    }
    given(ASK, &request)
}

fn words(text: Option<Vec<u8>>) -> Option<String> {
    text.map(|text| String::from_utf8_lossy(&text).into_owned())
}

struct Pipe;

impl Blobs for Pipe {
    fn read(&self, hash: &Hash) -> Outcome<Vec<u8>> {
        Ok(given(READ, hash)?.unwrap_or_default())
    }
}

impl Find for Pipe {
    fn find(&self, submission_id: &str) -> Outcome<Option<u64>> {
        let seq = given(FIND, submission_id.as_bytes())?;
        Ok(seq.map(|seq| u64::from_le_bytes(seq.try_into().expect("eight bytes"))))
    }
}

impl Verify for Pipe {
    fn verify(&self, message: &[u8], signature: &[u8], public_key: &[u8]) -> Outcome<bool> {
        Ok(asked(0, &[message, signature, public_key])?.is_some())
    }
}

impl Judge for Pipe {
    fn problem(&self, document: &[u8]) -> Outcome<Option<String>> {
        Ok(words(asked(1, &[document])?))
    }

    fn recorded_problem(&self, document: &[u8]) -> Outcome<Option<String>> {
        Ok(words(asked(3, &[document])?))
    }

    fn patch_problem(&self, base: &[u8], patch: &[u8], next: &[u8]) -> Outcome<Option<String>> {
        Ok(words(asked(2, &[base, patch, next])?))
    }
}

impl Sink for Pipe {
    fn put(&self, data: &[u8]) -> Outcome<()> {
        given(PUT, data).map(|_| ())
    }
}

fn main() {
    let pipe = Rc::new(Pipe);
    let host = Host {
        blobs: pipe.clone(),
        find: pipe.clone(),
        verify: pipe.clone(),
        judge: pipe.clone(),
        sink: pipe,
        memory: || (0, 0),
        bound_memory: |_| {},
    };
    let mut core = Core::new(host);
    while let Some((operation, request)) = receive() {
        send(ANSWER, &core.call(operation, &request));
    }
}
