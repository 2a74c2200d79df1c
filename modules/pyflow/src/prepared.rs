//! The program as the interpreter runs it: parsed and compiled once, when the module is built, so that
//! a turn only reads it (PY-15).

use aos_sdk::Fault;
use aos_sdk::cbor;
use monty::MontyRun;
use monty_types::CompileOptions;

use crate::program::{FAILURES, FLOW, FUNCTIONS, PRELUDE, fault};
use crate::segment::Segment;

/// The entrypoint `prepare`: from the bytes of a program to the form that its segment has as
/// `prepared`; or, as text, why it is no program, with the place.
pub fn prepare(program: &[u8]) -> Vec<u8> {
    // The memory of a call is never freed, so it may be leaked.
    let program: &'static [u8] = program.to_vec().leak();
    let mut out = Vec::new();
    match prepared(program) {
        Ok(bytes) => cbor::write_bytes(&bytes, &mut out),
        Err(fault) => cbor::write_text(&fault.message, &mut out),
    }
    out
}

fn prepared(program: &'static [u8]) -> Result<Vec<u8>, Fault> {
    let run = parsed(&Segment::read(program)?)?;
    postcard::to_allocvec(&run)
        .map_err(|error| Fault::new("program", format!("the program cannot be prepared: {error}")))
}

/// The program, ready to run: as the build has prepared it, or parsed now.
pub fn ready(segment: &Segment) -> Result<MontyRun, Fault> {
    match segment.prepared {
        None => parsed(segment),
        Some(bytes) => postcard::from_bytes(bytes).map_err(|error| {
            Fault::new("program", format!("the prepared program: {error}; build it again"))
        }),
    }
}

/// The error has the place of what is wrong in the source.
fn parsed(segment: &Segment) -> Result<MontyRun, Fault> {
    let functions: String =
        segment.flows.iter().map(|flow| format!("{}, ", flow.function)).collect();
    let code = format!("{PRELUDE}{}\nawait _aos_main(({functions})[{FLOW}])\n", segment.source);
    let names = FUNCTIONS.iter().chain(FAILURES.iter().map(|(name, _)| name));
    let names = names.chain([&FLOW]).map(|name| (*name).to_owned()).collect();
    let options = CompileOptions { source_scan_threshold: 0, ..CompileOptions::default() };
    MontyRun::new(code, segment.file, names, options)
        .map_err(|exception| fault(&exception, u32::MAX))
}
