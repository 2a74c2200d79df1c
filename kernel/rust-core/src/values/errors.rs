//! Errors of values, and the notation of places in a value (spec/values.md, V-3).

use crate::values::cbor::Key;

const SEGMENT_CHARACTERS_MAX: usize = 64;

/// A value is invalid at `path` (`$.items[2].qty`). Its text is that of the Python class of the
/// same name. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueProblem {
    pub message: String,
    pub path: String,
}

impl ValueProblem {
    pub fn new(message: impl Into<String>) -> Self {
        ValueProblem { message: message.into(), path: "$".to_string() }
    }

    /// Bytes that are not acceptable CBOR at a gate; `offset` is the index of the first invalid one.
    pub fn malformed(message: impl AsRef<str>, offset: usize) -> Self {
        ValueProblem::new(format!("{} (byte {offset})", message.as_ref()))
    }

    /// Prepend a step to the path: the field, map key or index of the outer value.
    pub fn under(self, step: &str) -> Self {
        let path = format!("${step}{}", &self.path[1..]);
        ValueProblem { message: self.message, path }
    }

    pub fn under_index(self, index: usize) -> Self {
        self.under(&format!("[{index}]"))
    }

    pub fn under_name(self, name: &str) -> Self {
        self.under(&name_segment(name))
    }

    pub fn under_key(self, key: &Key) -> Self {
        self.under(&segment(key))
    }
}

impl std::fmt::Display for ValueProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// One step of a path: `.qty` for a plain name, `[2]` for a number, else `["a b"]`.
pub fn segment(key: &Key) -> String {
    match key {
        Key::Int(n) => format!("[{n}]"),
        Key::Text(name) => name_segment(name),
    }
}

fn name_segment(name: &str) -> String {
    if is_plain(name) {
        format!(".{name}")
    } else {
        format!("[{}]", quoted(name))
    }
}

fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    let starts = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b'$';
    name.len() <= SEGMENT_CHARACTERS_MAX
        && bytes.next().is_some_and(starts)
        && bytes.all(|b| starts(b) || b.is_ascii_digit() || b == b'-')
}

/// `text` in JSON quotes, cut after 64 characters so that a hostile key cannot flood a log.
pub fn quoted(text: &str) -> String {
    quoted_points(text.chars().map(u32::from))
}

/// As `quoted`, of code points, among which may be lone surrogates.
pub fn quoted_points(mut points: impl Iterator<Item = u32>) -> String {
    let mut out = json_points(points.by_ref().take(SEGMENT_CHARACTERS_MAX));
    if points.next().is_some() {
        out.pop();
        out.push_str("…\"");
    }
    out
}

/// `text` as a JSON string of ASCII characters only.
pub fn json_text(text: &str) -> String {
    json_points(text.chars().map(u32::from))
}

fn json_points(points: impl Iterator<Item = u32>) -> String {
    let mut out = String::from("\"");
    for point in points {
        match char::from_u32(point) {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            Some(c @ ' '..='~') => out.push(c),
            Some(c) => {
                let mut units = [0u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            // A lone surrogate.
            None => out.push_str(&format!("\\u{point:04x}")),
        }
    }
    out.push('"');
    out
}

/// Why an operation of the core gives no result. Text is the same as the reference's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The journal or the blob store is damaged (Python: `Damage`). A state that was being folded
    /// must not be used any more.
    Damage(String),
    /// An import of the host did not return (HOST): the host kept what it raised. Nothing changed.
    Host,
    /// As `Host`, and the host kept that a record has erased the value (Python: `Erased`).
    Erased,
    /// An input has a field that no message or record can hold, and breaks no rule before. Nothing
    /// changed. Python: the encoder raises.
    Unwritable,
}

impl Failure {
    pub fn damage(text: impl Into<String>) -> Self {
        Failure::Damage(text.into())
    }
}

pub type Outcome<T> = Result<T, Failure>;
