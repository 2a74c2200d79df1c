//! Type expression -> Type, or all its problems (`kernel/aos/values/expressions.py`, V-20 to V-27).
//!
//! A Type is a small tree in which a reference is still a name. `read_types` reads all schemas of a
//! manifest together, checks the references between them and orders them so that each schema
//! follows those that it refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::collections::{OrderedMap, SeededMap, SeededSet};
use crate::errors::Sentence;
use crate::values::cbor::{Key, Value, INGRESS_DEPTH_MAX};
use crate::values::errors::quoted;
use crate::values::show::describe;

pub const NAME_BYTES_MAX: usize = 256;
/// An option around each container and around the scalar: no gate reads values of deeper types.
pub const TYPE_DEPTH_MAX: usize = 2 * INGRESS_DEPTH_MAX + 2;

const MAP_KEYS: [Scalar; 5] = [Scalar::Int, Scalar::Nat, Scalar::Text, Scalar::Uuid, Scalar::Hash];
const MAP_KEYS_TEXT: &str = "int, nat, text, uuid, hash";
const FORMS_HINT: &str = "a type is one of bool, int, nat, dec128, bytes, text, time, duration, \
     hash, uuid, unit, record, variant, list, set, map, option, ref, and may also have a $comment";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
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
}

impl Scalar {
    fn named(name: &str) -> Option<Scalar> {
        Some(match name {
            "bool" => Scalar::Bool,
            "int" => Scalar::Int,
            "nat" => Scalar::Nat,
            "dec128" => Scalar::Dec128,
            "bytes" => Scalar::Bytes,
            "text" => Scalar::Text,
            "time" => Scalar::Time,
            "duration" => Scalar::Duration,
            "hash" => Scalar::Hash,
            "uuid" => Scalar::Uuid,
            "unit" => Scalar::Unit,
            _ => return None,
        })
    }
}

/// The fields of a record or the arms of a variant, in canonical order.
pub type Parts = Vec<(Rc<str>, Type)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Scalar(Scalar),
    Record(Parts),
    Variant(Parts),
    ListOf(Box<Type>),
    SetOf(Box<Type>),
    /// A map with keys of one of the scalars that may be keys.
    MapOf(Scalar, Box<Type>),
    Option(Box<Type>),
    /// A reference to a schema by its name.
    TypeRef(Rc<str>),
}

pub const UNIT: Type = Type::Scalar(Scalar::Unit);

/// One problem: `pointer` is a JSON pointer into the type expression of `schema`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaProblem {
    pub schema: Rc<str>,
    pub pointer: String,
    pub message: String,
    pub hint: Option<&'static str>,
}

impl std::fmt::Display for SchemaProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let location = format!("{}#{}", self.schema, self.pointer);
        let sentence = Sentence {
            problem: &self.message,
            location: Some(&location),
            hint: self.hint,
            ..Sentence::default()
        };
        f.write_str(&sentence.text())
    }
}

/// Type expressions are invalid: all problems, ordered by schema name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaProblems(pub Vec<SchemaProblem>);

impl std::fmt::Display for SchemaProblems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self.0.iter().map(SchemaProblem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// Read and check all types together. In the result a schema follows all that it refers to.
pub fn read_types(
    expressions: &BTreeMap<Rc<str>, &Value>,
) -> Result<Vec<(Rc<str>, Type)>, SchemaProblems> {
    let mut reader = Reader::new(expressions);
    let mut types: SeededMap<Rc<str>, Type> = SeededMap::default();
    let mut readable_names = Vec::new();
    for (name, expression) in expressions {
        reader.schema = name.clone();
        if let Some(type_) = reader.read(expression, "", TYPE_DEPTH_MAX) {
            types.insert(name.clone(), type_);
            readable_names.push(name.clone());
        }
    }
    let needs: SeededMap<Rc<str>, Vec<Rc<str>>> = readable_names
        .iter()
        .map(|name| {
            let refs = reader.refs_of(name).filter(|&name| types.contains_key(name));
            (name.clone(), refs.cloned().collect())
        })
        .collect();
    let (order, cycles) = dependency_order(&readable_names, &needs);
    let mut problems = std::mem::take(&mut reader.problems);
    for cycle in &cycles {
        for name in cycle {
            let (ref_, pointer) = reader.refs[name]
                .iter()
                .find(|(ref_, _)| cycle.contains(*ref_))
                .expect("a schema of a cycle refers to one of it");
            problems.push(SchemaProblem {
                schema: name.clone(),
                pointer: pointer.clone(),
                message: format!("cyclic ref to {}", quoted(ref_)),
                hint: Some(
                    "a value of a cyclic type would have no end; refer to it by a key instead",
                ),
            });
        }
    }
    if cycles.is_empty() {
        let mut readable: Vec<&Rc<str>> = Vec::new(); // with all that they refer to
        let mut complete: BTreeSet<&Rc<str>> = BTreeSet::new();
        for name in &order {
            if reader.refs_of(name).all(|ref_| complete.contains(ref_)) {
                readable.push(name);
                complete.insert(name);
            }
        }
        check_resolved(&readable, &types, &mut problems);
    }
    if !problems.is_empty() {
        problems.sort_by(|a, b| a.schema.cmp(&b.schema));
        return Err(SchemaProblems(problems));
    }
    Ok(order
        .into_iter()
        .map(|name| {
            let type_ = types.remove(&name).expect("a name is once in the order");
            (name, type_)
        })
        .collect())
}

/// Reads expressions and collects all problems; an unreadable part becomes None.
struct Reader<'a> {
    schema_names: &'a BTreeMap<Rc<str>, &'a Value>,
    schema: Rc<str>,
    problems: Vec<SchemaProblem>,
    /// Schema -> name referred to -> first pointer.
    refs: SeededMap<Rc<str>, OrderedMap<Rc<str>, String>>,
}

impl<'a> Reader<'a> {
    fn new(schema_names: &'a BTreeMap<Rc<str>, &'a Value>) -> Self {
        Reader {
            schema_names,
            schema: Rc::from(""),
            problems: Vec::new(),
            refs: SeededMap::default(),
        }
    }

    fn refs_of<'b>(&'b self, name: &str) -> impl Iterator<Item = &'b Rc<str>> + 'b {
        self.refs.get(name).into_iter().flat_map(OrderedMap::keys)
    }

    fn read(&mut self, expression: &Value, pointer: &str, levels: usize) -> Option<Type> {
        if levels == 0 {
            return self.refuse(
                pointer,
                format!("nested too deep: expected at most {TYPE_DEPTH_MAX} levels"),
            );
        }
        let Value::Map(entries) = expression else {
            let message = format!(
                "expected a type such as {{\"text\": {{}}}}, found {}",
                describe(expression)
            );
            return self.refuse(pointer, message);
        };
        let is_comment = |key: &Key| matches!(key, Key::Text(name) if name == "$comment");
        let forms: Vec<&(Key, Value)> =
            entries.iter().filter(|(key, _)| !is_comment(key)).collect();
        let [(form, argument)] = forms[..] else {
            let names: Vec<String> =
                forms.iter().take(8).map(|(key, _)| quoted(&key_name(key))).collect();
            let actual = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            let message = format!("expected one type form, found {actual}");
            return self.refuse_with(pointer, message, Some(FORMS_HINT));
        };
        let form = match form {
            Key::Text(name) => name.as_str(),
            Key::Int(_) => "",
        };
        let inner = format!("{pointer}/{form}");
        if let Some(scalar) = Scalar::named(form) {
            if !matches!(argument, Value::Map(entries) if entries.is_empty()) {
                return self.refuse(&inner, format!("expected {{}}, found {}", describe(argument)));
            }
            return Some(Type::Scalar(scalar));
        }
        match form {
            "ref" => self.ref_(argument, &inner),
            "record" => self.parts("field", argument, &inner, levels).map(Type::Record),
            "variant" => self.parts("arm", argument, &inner, levels).map(Type::Variant),
            "map" => self.map(argument, &inner, levels),
            "list" | "set" | "option" => {
                let item = Box::new(self.read(argument, &inner, levels - 1)?);
                Some(match form {
                    "list" => Type::ListOf(item),
                    "set" => Type::SetOf(item),
                    _ => Type::Option(item),
                })
            }
            _ => {
                let name = key_name(&forms[0].0);
                let message = format!("unknown type form {}", quoted(&name));
                self.refuse_with(pointer, message, Some(FORMS_HINT))
            }
        }
    }

    fn ref_(&mut self, argument: &Value, pointer: &str) -> Option<Type> {
        let Value::Text(name) = argument else {
            let message = format!("expected a schema name, found {}", describe(argument));
            return self.refuse(pointer, message);
        };
        let Some((name, _)) = self.schema_names.get_key_value(name.as_str()) else {
            return self.refuse_with(
                pointer,
                format!("unknown ref {}", quoted(name)),
                Some("define that schema, or correct its name and version"),
            );
        };
        let refs = self.refs.entry(self.schema.clone()).or_default();
        if !refs.contains_key(name) {
            refs.insert(name.clone(), pointer.to_string());
        }
        Some(Type::TypeRef(name.clone()))
    }

    fn parts(
        &mut self,
        noun: &str,
        argument: &Value,
        pointer: &str,
        levels: usize,
    ) -> Option<Parts> {
        let Value::Map(entries) = argument else {
            let message = format!("expected an object of {noun}s, found {}", describe(argument));
            self.refuse(pointer, message);
            return None;
        };
        if noun == "arm" && entries.is_empty() {
            self.refuse(pointer, "expected at least one arm, found none".to_string());
            return None;
        }
        let mut parts = Parts::with_capacity(entries.len());
        for (key, expression) in entries {
            let name = key_name(key);
            let inner = format!("{pointer}/{}", escaped(&name));
            if !is_part_name(key) {
                let message = format!(
                    "bad {noun} name {}: expected 1 to {NAME_BYTES_MAX} bytes of text that does \
                     not begin with $",
                    quoted(&name)
                );
                self.refuse(&inner, message);
            } else if let Some(type_) = self.read(expression, &inner, levels - 1) {
                parts.push((Rc::from(name), type_));
            }
        }
        (parts.len() == entries.len()).then_some(parts)
    }

    fn map(&mut self, argument: &Value, pointer: &str, levels: usize) -> Option<Type> {
        let expected = match argument {
            Value::Map(entries) if entries.len() == 2 => {
                argument.get("key").zip(argument.get("value"))
            }
            _ => None,
        };
        let Some((key, item)) = expected else {
            return self.refuse(pointer, "expected {\"key\": K, \"value\": T}".to_string());
        };
        let key_pointer = format!("{pointer}/key");
        let key = self.read(key, &key_pointer, levels - 1);
        let item = self.read(item, &format!("{pointer}/value"), levels - 1);
        match key? {
            Type::Scalar(key) if MAP_KEYS.contains(&key) => Some(Type::MapOf(key, Box::new(item?))),
            _ => self
                .refuse(&key_pointer, format!("expected a map key type: one of {MAP_KEYS_TEXT}")),
        }
    }

    /// Note a problem. Returns None, the unreadable type, which the caller can return.
    fn refuse(&mut self, pointer: &str, message: String) -> Option<Type> {
        self.refuse_with(pointer, message, None)
    }

    fn refuse_with(
        &mut self,
        pointer: &str,
        message: String,
        hint: Option<&'static str>,
    ) -> Option<Type> {
        self.problems.push(SchemaProblem {
            schema: self.schema.clone(),
            pointer: pointer.to_string(),
            message,
            hint,
        });
        None
    }
}

fn key_name(key: &Key) -> String {
    match key {
        Key::Int(n) => n.to_string(),
        Key::Text(name) => name.clone(),
    }
}

fn is_part_name(key: &Key) -> bool {
    match key {
        Key::Int(_) => false,
        Key::Text(name) => !name.starts_with('$') && (1..=NAME_BYTES_MAX).contains(&name.len()),
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Call `visit` with the JSON pointer from this type, and each inner type.
fn children<'a>(type_: &'a Type, mut visit: impl FnMut(String, &'a Type)) {
    match type_ {
        Type::Record(parts) => parts
            .iter()
            .for_each(|(name, inner)| visit(format!("/record/{}", escaped(name)), inner)),
        Type::Variant(parts) => parts
            .iter()
            .for_each(|(name, inner)| visit(format!("/variant/{}", escaped(name)), inner)),
        Type::ListOf(item) => visit("/list".to_string(), item),
        Type::SetOf(item) => visit("/set".to_string(), item),
        Type::MapOf(_, item) => visit("/map/value".to_string(), item),
        Type::Option(item) => visit("/option".to_string(), item),
        Type::Scalar(_) | Type::TypeRef(_) => {}
    }
}

/// Problems that need the references followed: options of options, and depth of values.
fn check_resolved(
    names: &[&Rc<str>],
    types: &SeededMap<Rc<str>, Type>,
    problems: &mut Vec<SchemaProblem>,
) {
    let mut depths: SeededMap<&str, usize> = SeededMap::default();
    // The type at the end of the references from each schema; a chain of them can be long.
    let mut ends: SeededMap<&str, &Type> = SeededMap::default();
    for &name in names {
        let root = &types[name];
        ends.insert(name, end_of(root, &ends));
        let depth = depth_of(root, &depths);
        depths.insert(name, depth);
        if depth > INGRESS_DEPTH_MAX {
            problems.push(SchemaProblem {
                schema: name.clone(),
                pointer: String::new(),
                message: format!(
                    "values would nest {depth} levels deep: expected at most {INGRESS_DEPTH_MAX}"
                ),
                hint: None,
            });
        }
        let mut pending = vec![(String::new(), root)];
        while let Some((pointer, type_)) = pending.pop() {
            if let Type::Option(item) = type_ {
                let inner = end_of(item, &ends);
                let is_option = matches!(inner, Type::Option(_));
                if is_option || *inner == UNIT {
                    let content = if is_option { "an option" } else { "unit" };
                    problems.push(SchemaProblem {
                        schema: name.clone(),
                        pointer: format!("{pointer}/option"),
                        message: format!("option of {content}"),
                        hint: Some("null would mean two things; use a variant"),
                    });
                }
            }
            children(type_, |step, inner| pending.push((format!("{pointer}{step}"), inner)));
        }
    }
}

/// The type that a reference leads to, or else the type itself.
fn end_of<'a>(type_: &'a Type, ends: &SeededMap<&str, &'a Type>) -> &'a Type {
    match type_ {
        Type::TypeRef(name) => ends[&**name],
        _ => type_,
    }
}

/// Levels of containers in the deepest value of this type.
fn depth_of(type_: &Type, depths: &SeededMap<&str, usize>) -> usize {
    if let Type::TypeRef(name) = type_ {
        return depths[&**name];
    }
    let mut inner = 0;
    children(type_, |_, child| inner = inner.max(depth_of(child, depths)));
    match type_ {
        Type::Scalar(_) | Type::Option(_) => inner,
        _ => inner + 1,
    }
}

/// (names, each after all that it refers to; the cycles). Tarjan, without recursion.
fn dependency_order(
    names: &[Rc<str>],
    needs: &SeededMap<Rc<str>, Vec<Rc<str>>>,
) -> (Vec<Rc<str>>, Vec<BTreeSet<Rc<str>>>) {
    let mut order = Vec::new();
    let mut cycles = Vec::new();
    let mut index: SeededMap<Rc<str>, usize> = SeededMap::default();
    let mut low: SeededMap<Rc<str>, usize> = SeededMap::default();
    let mut open: SeededSet<Rc<str>> = SeededSet::default();
    let mut open_names: Vec<Rc<str>> = Vec::new();
    for root in names {
        let mut work: Vec<(Rc<str>, usize)> = Vec::new();
        if !index.contains_key(root) {
            work.push((root.clone(), 0));
        }
        while let Some((name, next)) = work.last_mut() {
            let name = name.clone();
            if !index.contains_key(&name) {
                let at = index.len();
                index.insert(name.clone(), at);
                low.insert(name.clone(), at);
                open.insert(name.clone());
                open_names.push(name.clone());
            }
            let mut unvisited = None;
            while let Some(need) = needs[&name].get(*next) {
                *next += 1;
                if !index.contains_key(need) {
                    unvisited = Some(need.clone());
                    break;
                }
                if open.contains(need) {
                    let least = low[&name].min(low[need]);
                    low.insert(name.clone(), least);
                }
            }
            if let Some(need) = unvisited {
                work.push((need, 0));
                continue;
            }
            work.pop();
            if let Some((outer, _)) = work.last() {
                let least = low[outer].min(low[&name]);
                low.insert(outer.clone(), least);
            }
            if low[&name] == index[&name] {
                let mut group = Vec::new();
                while group.last() != Some(&name) {
                    let last = open_names.pop().expect("the name itself is open");
                    open.remove(&last);
                    group.push(last);
                }
                if group.len() > 1 || needs[&name].contains(&name) {
                    cycles.push(group.iter().cloned().collect());
                }
                order.extend(group);
            }
        }
    }
    (order, cycles)
}
