//! Operations for differential tests, in a test build (`--features probe`): read a value of some
//! kind, and answer its canonical bytes or the words of its problem.

use crate::journal::frame::{read_frame, read_frame_in_place, Head};
use crate::journal::record_codec::{from_bytes, to_bytes};
use crate::journal::shadow_report::read_report_head;
use crate::operations::put_u32;
use crate::values::cbor::{decode_ingress, decode_record, encode, INGRESS, RECORD};
use crate::values::errors::{Failure, Outcome};

const REFUSED: u32 = 3;

/// Bytes at the record gate.
const VALUE: u32 = 100;
/// Bytes at the ingress gate.
const INGRESS_VALUE: u32 = 101;
const RECORD_BYTES: u32 = 102;
/// -> the frame's hash and its bytes.
const FRAME: u32 = 103;
const HEAD: u32 = 104;
/// -> mode of a shadow report.
const REPORT: u32 = 105;

/// A question about values and manifests -> its answer, both canonical CBOR.
const QUESTION: u32 = 110;
/// As `QUESTION`, about indexes, entries, chunks and snapshots.
const STATE_QUESTION: u32 = 111;

/// The answer of a probe; None if the operation is another one.
pub fn probe(operation: u32, request: &[u8]) -> Option<Vec<u8>> {
    let result: Result<Vec<u8>, String> = match operation {
        VALUE => decode_record(request, RECORD).map(|v| encode(&v)).map_err(|e| e.to_string()),
        INGRESS_VALUE => {
            decode_ingress(request, INGRESS).map(|v| encode(&v)).map_err(|e| e.to_string())
        }
        RECORD_BYTES => words(from_bytes(request)).map(|record| to_bytes(&record)),
        FRAME => match read_frame_in_place(request) {
            Some(frame) => Ok([&frame.hash[..], &frame.to_bytes()].concat()),
            None => words(read_frame(request))
                .map(|frame| [&frame.hash[..], &frame.to_bytes()].concat()),
        },
        HEAD => words(Head::from_bytes(request)).map(|head| head.to_bytes()),
        REPORT => read_report_head(request).map(|head| head.mode.as_bytes().to_vec()),
        QUESTION => crate::values_probe::answer(request),
        STATE_QUESTION => crate::state_probe::answer(request),
        _ => return None,
    };
    let mut answer = Vec::new();
    match result {
        Ok(data) => {
            put_u32(&mut answer, 0);
            answer.extend(data);
        }
        Err(text) => {
            put_u32(&mut answer, REFUSED);
            answer.extend(text.into_bytes());
        }
    }
    Some(answer)
}

fn words<T>(outcome: Outcome<T>) -> Result<T, String> {
    outcome.map_err(|failure| match failure {
        Failure::Damage(text) => text,
        Failure::Host | Failure::Erased | Failure::Unwritable => {
            "the host did not return".to_string()
        }
    })
}
