//! The head of a shadow report: which change it shows, and over which records (GV-30 to GV-32;
//! `kernel/aos/core/journal/shadow_report.py`).

use std::rc::Rc;

use crate::values::cbor::{decode_record, Value, RECORD};
use crate::values::digests::Hash;

pub const REPORT_FORMAT: &str = "aos-shadow/1";
/// Largest report, in bytes.
pub const REPORT_BYTES_MAX: usize = 1 << 20;

const NAT_MAX: u64 = (1 << 63) - 1;

/// `first` is the record that the proposed manifest replaced, `last` the last record that the
/// shadow followed, `frame` the hash of the frame that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportHead {
    pub world: Hash,
    pub base: Hash,
    pub document: Hash,
    pub mode: Rc<str>,
    pub leaves: Vec<Rc<str>>,
    pub first: u64,
    pub last: u64,
    pub frame: Hash,
}

impl ReportHead {
    /// How many records the shadow followed; negative if the report has them in the wrong order.
    pub fn records(&self) -> i64 {
        self.last as i64 - self.first as i64
    }
}

/// Read the fields that the kernel checks; all others are the report's own. The error is the text
/// of the reference's `ReportInvalid`.
pub fn read_report_head(report: &[u8]) -> Result<ReportHead, String> {
    if report.len() > REPORT_BYTES_MAX {
        return Err(format!("expected at most {REPORT_BYTES_MAX} bytes, found {}", report.len()));
    }
    let value = decode_record(report, RECORD)
        .map_err(|problem| format!("it is not canonical CBOR: {problem}"))?;
    head_of(&value).ok_or_else(|| {
        format!(
            "expected a map with format {REPORT_FORMAT}, world, base, document, mode, leaves, \
             from, to and frame"
        )
    })
}

fn head_of(value: &Value) -> Option<ReportHead> {
    if value.get("format")?.as_text()? != REPORT_FORMAT {
        return None;
    }
    let hash = |name| value.get(name)?.as_bytes()?.try_into().ok();
    let record = |name| value.get(name)?.as_nat().filter(|n| (1..=NAT_MAX).contains(n));
    let leaves = value.get("leaves")?.as_list()?.iter();
    Some(ReportHead {
        world: hash("world")?,
        base: hash("base")?,
        document: hash("document")?,
        mode: value.get("mode")?.as_text()?.into(),
        leaves: leaves.map(|name| name.as_text().map(Rc::from)).collect::<Option<_>>()?,
        first: record("from")?,
        last: record("to")?,
        frame: hash("frame")?,
    })
}
