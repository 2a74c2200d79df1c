//! The limits that affect the core's decisions (`kernel/aos/manifest/limits.py`, M-40 to M-43).
//! Sizes are bytes. Documents are complete, so there are no defaults here but those of limits that
//! were added later.

use std::collections::BTreeSet;

use crate::manifest::node::Unreadable;
use crate::values::cbor::{Key, Value};

/// Limits of one step of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepLimits {
    pub fuel: u64,
    pub memory_bytes: u64,
    pub output_bytes: u64,
    pub state_bytes: u64,
    pub effects: u64,
    pub events: u64,
    /// Requested idempotency keys that are remembered for one instance of the workflow; None: as
    /// many as the world's `instance_keys`.
    pub keys: Option<u64>,
}

/// Limits of a whole world, and of the work that one root cause may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldLimits {
    pub event_bytes: u64,
    pub cascade_depth: u64,
    pub cascade_steps: u64,
    pub mailbox: u64,
    pub instance_intents: u64,
    pub open_intents: u64,
    pub dedup_ns: u64,
    /// The most ns by which one record advances the window time; None: as far as it advances the
    /// journal clock.
    pub dedup_step_ns: Option<u64>,
    pub dedup_rows: u64,
    pub instance_keys: u64,
    pub abandoned_intents: u64,
    pub stream_bytes: u64,
    pub stream_rate: u64,
    pub stream_frames: u64,
}

/// Reads limits of a document, which has exactly the known fields, but one that was added later only
/// if it differs from its default (M-43).
struct Reader<'a> {
    document: &'a [(Key, Value)],
}

impl<'a> Reader<'a> {
    fn new(document: &'a Value, required: &[&str], later: &[&str]) -> Result<Self, Unreadable> {
        let Value::Map(document) = document else { return Err(Unreadable::Shape) };
        let has = |name: &str| {
            document.iter().any(|(key, _)| matches!(key, Key::Text(text) if text == name))
        };
        let mut odd: BTreeSet<String> =
            required.iter().filter(|name| !has(name)).map(|name| name.to_string()).collect();
        for (key, _) in document {
            match key {
                Key::Int(_) => return Err(Unreadable::Shape),
                Key::Text(name) if [required, later].concat().contains(&name.as_str()) => {}
                Key::Text(name) => {
                    odd.insert(name.clone());
                }
            }
        }
        if odd.is_empty() {
            return Ok(Reader { document });
        }
        let names: Vec<String> = odd.into_iter().collect();
        Err(Unreadable::Problem(format!(
            "limits must have exactly the known fields; these differ: {}",
            names.join(", ")
        )))
    }

    fn value(&self, name: &str) -> Option<&Value> {
        let is_named = |key: &Key| matches!(key, Key::Text(text) if text == name);
        self.document.iter().find(|(key, _)| is_named(key)).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> Result<u64, Unreadable> {
        self.value(name).and_then(Value::as_nat).ok_or(Unreadable::Shape)
    }

    fn later(&self, name: &str, default: u64) -> Result<u64, Unreadable> {
        Ok(self.later_or_none(name, Some(default))?.unwrap_or(default))
    }

    fn later_or_none(&self, name: &str, default: Option<u64>) -> Result<Option<u64>, Unreadable> {
        let Some(value) = self.value(name) else { return Ok(default) };
        let number = match value {
            Value::Null => None,
            value => Some(value.as_nat().ok_or(Unreadable::Shape)?),
        };
        if number == default {
            let problem = format!("limits: {name} has its default, where it is left out");
            return Err(Unreadable::Problem(problem));
        }
        Ok(number)
    }
}

impl StepLimits {
    pub fn from_document(document: &Value) -> Result<Self, Unreadable> {
        const REQUIRED: [&str; 6] =
            ["fuel", "memory_bytes", "output_bytes", "state_bytes", "effects", "events"];
        let reader = Reader::new(document, &REQUIRED, &["keys"])?;
        Ok(StepLimits {
            fuel: reader.number("fuel")?,
            memory_bytes: reader.number("memory_bytes")?,
            output_bytes: reader.number("output_bytes")?,
            state_bytes: reader.number("state_bytes")?,
            effects: reader.number("effects")?,
            events: reader.number("events")?,
            keys: reader.later_or_none("keys", None)?,
        })
    }
}

impl WorldLimits {
    pub fn from_document(document: &Value) -> Result<Self, Unreadable> {
        const REQUIRED: [&str; 10] = [
            "event_bytes",
            "cascade_depth",
            "cascade_steps",
            "mailbox",
            "instance_intents",
            "open_intents",
            "dedup_ns",
            "dedup_rows",
            "instance_keys",
            "abandoned_intents",
        ];
        const LATER: [&str; 4] = ["dedup_step_ns", "stream_bytes", "stream_rate", "stream_frames"];
        let reader = Reader::new(document, &REQUIRED, &LATER)?;
        Ok(WorldLimits {
            event_bytes: reader.number("event_bytes")?,
            cascade_depth: reader.number("cascade_depth")?,
            cascade_steps: reader.number("cascade_steps")?,
            mailbox: reader.number("mailbox")?,
            instance_intents: reader.number("instance_intents")?,
            open_intents: reader.number("open_intents")?,
            dedup_ns: reader.number("dedup_ns")?,
            dedup_step_ns: reader.later_or_none("dedup_step_ns", None)?,
            dedup_rows: reader.number("dedup_rows")?,
            instance_keys: reader.number("instance_keys")?,
            abandoned_intents: reader.number("abandoned_intents")?,
            stream_bytes: reader.later("stream_bytes", 64 << 10)?,
            stream_rate: reader.later("stream_rate", 100)?,
            stream_frames: reader.later("stream_frames", 100_000)?,
        })
    }
}
