//! Placement: which shard of a group has a cell (spec/groups.md, GR-1 to GR-6;
//! `kernel/aos/manifest/placement.py`).

use std::borrow::Cow;
use std::rc::Rc;

use crate::manifest::node::{name, name_or, Reading, Unreadable};
use crate::values::cbor::{entry_at, item_end, put_text, Value};
use crate::values::codec::read_text;
use crate::values::digests::content_hash;
use crate::values::show::describe;

/// The workflow of schedules.
const SCHEDULE: &str = "aos/schedule@1";

const SHARDS_MIN: u64 = 2;
const SHARDS_MAX: u64 = 1024;

/// The `shard_by` of text keys: the text before the first `|`, or all of it without one.
const BEFORE_BAR: char = '|';

/// One world of a group: its index, from 0, and the number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    pub index: u64,
    pub count: u64,
}

impl Shard {
    /// The `shard` of a document; None for a world in no group.
    pub fn of(value: Option<&Value>) -> Reading<Option<Shard>> {
        let Some(value) = value.filter(|value| **value != Value::Null) else { return Ok(None) };
        if let Some([index, count]) = value.as_list() {
            if let (Some(index), Some(count)) = (index.as_nat(), count.as_nat()) {
                if (SHARDS_MIN..=SHARDS_MAX).contains(&count) && index < count {
                    return Ok(Some(Shard { index, count }));
                }
            }
        }
        Err(Unreadable::Problem(format!(
            "shard: expected [index, count] with {SHARDS_MIN} to {SHARDS_MAX} shards and an index \
             from 0, found {}",
            describe(value)
        )))
    }
}

/// How the cells of one workflow are placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each cell is in the shard of its key, or of a part of it: a field of a record, or
    /// `BEFORE_BAR`.
    Key { shard_by: Option<Rc<str>> },
    /// All cells are in shard 0.
    First,
    /// Each shard has cells of its own, also under the same key.
    Each,
}

impl Placement {
    /// The placement of a workflow that `routing.shards` does not list (GR-3).
    pub fn default_of(workflow: &str, is_keyed: bool) -> Placement {
        match is_keyed && workflow != SCHEDULE {
            true => Placement::Key { shard_by: None },
            false => Placement::First,
        }
    }

    /// The placement in an entry of `routing.shards`.
    pub fn of(entry: &Value) -> Reading<Placement> {
        if entry.get("shard_by").is_some() {
            return Ok(Placement::Key { shard_by: Some(name(entry, "shard_by")?) });
        }
        match name_or(entry, "shard", "")? {
            "each" => Ok(Placement::Each),
            _ => Err(Unreadable::Shape),
        }
    }

    /// The shard of the cell with this key, in canonical CBOR; None if each shard has its own.
    pub fn shard(&self, key: &[u8], shards: u64) -> Option<u64> {
        match self {
            Placement::Each => None,
            Placement::First => Some(0),
            Placement::Key { shard_by } => {
                let part = shard_by.as_ref().map_or(Cow::Borrowed(key), |by| part(key, by));
                Some(shard_of_key(&part, shards))
            }
        }
    }
}

/// The shard of a key (GR-2): 0 to `shards` - 1.
pub fn shard_of_key(key: &[u8], shards: u64) -> u64 {
    let hash = content_hash(key);
    let first = hash[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    first % shards
}

/// The part of a key by which it is placed, in canonical CBOR. The key is valid for its workflow, so
/// it has the part.
fn part<'a>(key: &'a [u8], shard_by: &str) -> Cow<'a, [u8]> {
    if let Some((text, _)) = read_text(key, 0) {
        return match text.split_once(BEFORE_BAR) {
            None => Cow::Borrowed(key),
            Some((before, _)) => {
                let mut part = Vec::new();
                put_text(&mut part, before);
                Cow::Owned(part)
            }
        };
    }
    let field = entry_at(key, 0, shard_by).and_then(|at| key.get(at..item_end(key, at)?));
    Cow::Borrowed(field.unwrap_or(key))
}
