//! AIR out of Rust types: type expressions and nodes as constants, and their JSON text, made while
//! the crate is compiled.
//!
//! The derives of this crate use it, and so may any other macro that makes schemas:
//!
//! ```
//! use aos_sdk::air::{Json, Type};
//!
//! aos_sdk::air_node!(Json::Object(&[
//!     ("$kind", Json::Text("defschema")),
//!     ("name", Json::Text("demo/Names@1")),
//!     ("type", Json::Type(&Type::List(&Type::Text))),
//! ]));
//! ```

/// A type expression of AIR (`spec/values.md`, V-20).
#[derive(Debug)]
pub enum Type {
    Bool,
    Int,
    Nat,
    Dec128,
    Bytes,
    Text,
    Time,
    Duration,
    Hash,
    Uuid,
    Unit,
    List(&'static Type),
    Set(&'static Type),
    Option(&'static Type),
    Map {
        key: &'static Type,
        value: &'static Type,
    },
    Record(&'static [(&'static str, &'static Type)]),
    Variant(&'static [(&'static str, &'static Type)]),
    Ref(&'static Definition),
    /// The type with a `$comment` of these words, joined by spaces.
    Noted {
        words: &'static [&'static str],
        of: &'static Type,
    },
}

/// A named type: a `defschema`.
#[derive(Debug)]
pub struct Definition {
    pub name: &'static str,
    pub of: Type,
}

/// A constant piece of JSON. An object leaves out its `Absent` fields.
#[derive(Debug)]
pub enum Json {
    Absent,
    Text(&'static str),
    /// Two texts as one.
    Joined(&'static str, &'static str),
    Number(u64),
    Bool(bool),
    List(&'static [Json]),
    Object(&'static [(&'static str, Json)]),
    Type(&'static Type),
    /// Several nodes, a line each. Only at the top.
    Lines(&'static [Json]),
}

impl Type {
    /// The type itself: refs followed, comments taken off.
    pub const fn bare(&self) -> &Type {
        let mut at = self;
        loop {
            at = match at {
                Type::Ref(definition) => &definition.of,
                Type::Noted { of, .. } => of,
                _ => return at,
            };
        }
    }

    /// The name of a type that has one.
    pub const fn name(&self) -> Option<&'static str> {
        match self {
            Type::Ref(definition) => Some(definition.name),
            _ => None,
        }
    }

    /// For the type of `option`: null would mean two things (V-25).
    pub const fn assert_not_null(&self) {
        assert!(
            !matches!(self.bare(), Type::Option(_) | Type::Unit),
            "an option of an option, or of a type without a value, cannot be told from none"
        );
    }

    /// For the arm of a variant that is written with a value (V-40).
    pub const fn assert_has_value(&self) {
        assert!(
            !matches!(self, Type::Unit),
            "an arm of type () is written without a value: `Arm`, not `Arm(())`"
        );
    }

    /// For the state of a workflow: the refusal of a handle whose effect `effects(…)` does not have.
    /// Without it, the kernel would refuse the first step that requests it (`spec/kernel.md`, K-50).
    pub const fn handle_without(&self, effects: &[&str]) -> Option<Refusal> {
        match self {
            Type::List(of) | Type::Set(of) | Type::Option(of) => of.handle_without(effects),
            Type::Map { value, .. } => value.handle_without(effects),
            Type::Record(parts) | Type::Variant(parts) => {
                let mut at = 0;
                while at < parts.len() {
                    if let Some(refusal) = parts[at].1.handle_without(effects) {
                        return Some(refusal);
                    }
                    at += 1;
                }
                None
            }
            Type::Ref(definition) => definition.of.handle_without(effects),
            Type::Noted { words: [kind, effect], .. }
                if same(kind, "pending") || same(kind, "pending set") =>
            {
                let mut at = 0;
                while at < effects.len() && !same(effects[at], effect) {
                    at += 1;
                }
                if at < effects.len() { None } else { Some(Refusal::of_handle(effect)) }
            }
            Type::Noted { of, .. } => of.handle_without(effects),
            _ => None,
        }
    }

    /// For the arms of an event: each refers to a schema of its own (`spec/manifest.md`, M-32).
    pub const fn assert_event(&self) {
        let Type::Variant(arms) = self.bare() else {
            panic!("an event of several arms is an enum");
        };
        let mut at = 0;
        while at < arms.len() {
            let mut other = 0;
            while other < at {
                assert!(
                    !same(final_name(arms[at].1), final_name(arms[other].1)),
                    "two arms of the event have the same schema: the kernel could not choose"
                );
                other += 1;
            }
            at += 1;
        }
    }
}

impl Json {
    /// A text for a list that has these already: `Absent` where it is one of them.
    pub const fn text_beside(text: &'static str, others: &[&str]) -> Json {
        let mut at = 0;
        while at < others.len() {
            if same(text, others[at]) {
                return Json::Absent;
            }
            at += 1;
        }
        Json::Text(text)
    }
}

/// The message of a compile error.
pub struct Refusal(Page<512>);

impl Refusal {
    const fn of_handle(effect: &str) -> Refusal {
        let mut page = Page { bytes: [b' '; 512], at: 0 };
        page.raw("add the effect to `effects(…)` of the workflow: its state has a handle of ");
        page.raw(effect);
        Refusal(page)
    }

    pub const fn text(&self) -> &str {
        match core::str::from_utf8(self.0.bytes.split_at(self.0.at).0) {
            Ok(words) => words,
            Err(_) => "add the effect of every handle in the state to `effects(…)`",
        }
    }
}

/// The name at the end of a chain of refs: a name that only refers to another is the same type.
const fn final_name(ty: &Type) -> &'static str {
    let mut at = ty;
    loop {
        let Type::Ref(definition) = at else {
            panic!("an arm of an event holds a type with a name: #[schema(\"…\")]");
        };
        if !matches!(definition.of, Type::Ref(_)) {
            return definition.name;
        }
        at = &definition.of;
    }
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Room for a text; with none, only its length is counted.
struct Page<const SIZE: usize> {
    bytes: [u8; SIZE],
    at: usize,
}

/// The length of the line that `render` makes: 0 for `Absent`.
pub const fn length(node: &Json) -> usize {
    let mut page = Page::<0> { bytes: [], at: 0 };
    page.line(node);
    page.at
}

/// The node as one line of JSON. `SIZE` is its `length`.
pub const fn render<const SIZE: usize>(node: &Json) -> [u8; SIZE] {
    let mut page = Page::<SIZE> { bytes: [0; SIZE], at: 0 };
    page.line(node);
    page.bytes
}

impl<const SIZE: usize> Page<SIZE> {
    const fn line(&mut self, node: &Json) {
        match node {
            Json::Absent => {}
            Json::Lines(nodes) => {
                let mut at = 0;
                while at < nodes.len() {
                    self.line(&nodes[at]);
                    at += 1;
                }
            }
            node => {
                self.json(node);
                self.byte(b'\n');
            }
        }
    }

    const fn byte(&mut self, byte: u8) {
        if SIZE > 0 {
            self.bytes[self.at] = byte;
        }
        self.at += 1;
    }

    const fn raw(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self.byte(bytes[at]);
            at += 1;
        }
    }

    /// The inside of a JSON string.
    const fn escaped(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'"' => self.raw("\\\""),
                b'\\' => self.raw("\\\\"),
                b'\n' => self.raw("\\n"),
                control @ 0..=0x1f => {
                    self.raw("\\u00");
                    self.byte(hex(control >> 4));
                    self.byte(hex(control & 15));
                }
                other => self.byte(other),
            }
            at += 1;
        }
    }

    const fn string(&mut self, text: &str) {
        self.byte(b'"');
        self.escaped(text);
        self.byte(b'"');
    }

    const fn number(&mut self, number: u64) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.byte(b'0' + (number % 10) as u8);
    }

    const fn json(&mut self, json: &Json) {
        match json {
            Json::Absent | Json::Lines(_) => {}
            Json::Text(text) => self.string(text),
            Json::Joined(one, other) => {
                self.byte(b'"');
                self.escaped(one);
                self.escaped(other);
                self.byte(b'"');
            }
            Json::Number(number) => self.number(*number),
            Json::Bool(value) => self.raw(if *value { "true" } else { "false" }),
            Json::List(items) => self.list(items),
            Json::Object(fields) => self.object(fields),
            Json::Type(ty) => {
                self.byte(b'{');
                self.ty(ty);
                self.byte(b'}');
            }
        }
    }

    const fn list(&mut self, items: &[Json]) {
        self.byte(b'[');
        let (mut at, mut first) = (0, true);
        while at < items.len() {
            if !matches!(items[at], Json::Absent) {
                self.comma(&mut first);
                self.json(&items[at]);
            }
            at += 1;
        }
        self.byte(b']');
    }

    const fn object(&mut self, fields: &[(&str, Json)]) {
        self.byte(b'{');
        let (mut at, mut first) = (0, true);
        while at < fields.len() {
            let (name, value) = &fields[at];
            if !matches!(value, Json::Absent) {
                self.comma(&mut first);
                self.key(name);
                self.json(value);
            }
            at += 1;
        }
        self.byte(b'}');
    }

    const fn comma(&mut self, first: &mut bool) {
        if !*first {
            self.byte(b',');
        }
        *first = false;
    }

    const fn key(&mut self, name: &str) {
        self.string(name);
        self.byte(b':');
    }

    /// The inside of a type expression, without its braces.
    const fn ty(&mut self, ty: &Type) {
        match ty {
            Type::Bool => self.plain("bool"),
            Type::Int => self.plain("int"),
            Type::Nat => self.plain("nat"),
            Type::Dec128 => self.plain("dec128"),
            Type::Bytes => self.plain("bytes"),
            Type::Text => self.plain("text"),
            Type::Time => self.plain("time"),
            Type::Duration => self.plain("duration"),
            Type::Hash => self.plain("hash"),
            Type::Uuid => self.plain("uuid"),
            Type::Unit => self.plain("unit"),
            Type::List(inside) => self.around("list", inside),
            Type::Set(inside) => self.around("set", inside),
            Type::Option(inside) => self.around("option", inside),
            Type::Map { key, value } => {
                self.raw("\"map\":{\"key\":{");
                self.ty(key);
                self.raw("},\"value\":{");
                self.ty(value);
                self.raw("}}");
            }
            Type::Record(parts) => self.parts("record", parts),
            Type::Variant(parts) => self.parts("variant", parts),
            Type::Ref(definition) => {
                self.key("ref");
                self.string(definition.name);
            }
            Type::Noted { words, of } => {
                self.ty(of);
                self.raw(",\"$comment\":\"");
                let mut at = 0;
                while at < words.len() {
                    if at > 0 {
                        self.byte(b' ');
                    }
                    self.escaped(words[at]);
                    at += 1;
                }
                self.byte(b'"');
            }
        }
    }

    const fn plain(&mut self, name: &str) {
        self.key(name);
        self.raw("{}");
    }

    const fn around(&mut self, name: &str, inside: &Type) {
        self.key(name);
        self.byte(b'{');
        self.ty(inside);
        self.byte(b'}');
    }

    const fn parts(&mut self, name: &str, parts: &[(&str, &Type)]) {
        self.key(name);
        self.byte(b'{');
        let mut at = 0;
        while at < parts.len() {
            if at > 0 {
                self.byte(b',');
            }
            self.key(parts[at].0);
            self.byte(b'{');
            self.ty(parts[at].1);
            self.byte(b'}');
            at += 1;
        }
        self.byte(b'}');
    }
}

const fn hex(digit: u8) -> u8 {
    match digit {
        0..=9 => b'0' + digit,
        _ => b'a' + digit - 10,
    }
}

/// Write a constant `Json` into the module's custom section `aos.air`, as one line.
///
/// The section is for `aos build`; it is no part of what the kernel runs. Outside of WASM it does
/// nothing but check the constant.
#[macro_export]
macro_rules! air_node {
    ($node:expr) => {
        const _: () = {
            const NODE: $crate::air::Json = $node;
            const LENGTH: usize = $crate::air::length(&NODE);
            #[cfg(target_arch = "wasm32")]
            #[used]
            #[unsafe(link_section = "aos.air")]
            static LINE: [u8; LENGTH] = $crate::air::render(&NODE);
            let _ = LENGTH;
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<const SIZE: usize>(line: [u8; SIZE]) -> String {
        String::from_utf8(line.to_vec()).unwrap()
    }

    #[test]
    fn a_node_is_one_line_of_json() {
        const NAME: Definition = Definition { name: "demo/Name@1", of: Type::Text };
        const NODE: Json = Json::Object(&[
            ("$kind", Json::Joined("def", "schema")),
            ("$comment", Json::Absent),
            ("quoted", Json::Text("\"\\\n\u{1}é")),
            ("numbers", Json::List(&[Json::Number(0), Json::Absent, Json::Number(u64::MAX)])),
            ("flags", Json::List(&[Json::Bool(true), Json::Bool(false)])),
            (
                "type",
                Json::Type(&Type::Record(&[
                    ("a", &Type::Map { key: &Type::Int, value: &Type::Ref(&NAME) }),
                    (
                        "b",
                        &Type::Noted { words: &["pending", "x"], of: &Type::Option(&Type::Text) },
                    ),
                ])),
            ),
        ]);
        let expected = concat!(
            r#"{"$kind":"defschema","quoted":"\"\\\n\u0001é","numbers":[0,18446744073709551615],"#,
            r#""flags":[true,false],"#,
            r#""type":{"record":{"a":{"map":{"key":{"int":{}},"value":{"ref":"demo/Name@1"}}},"#,
            r#""b":{"option":{"text":{}},"$comment":"pending x"}}}}"#,
            "\n"
        );
        assert_eq!(length(&NODE), expected.len());
        assert_eq!(text(render::<{ length(&NODE) }>(&NODE)), expected);
    }
}
