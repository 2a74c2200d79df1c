//! Reading the nodes of an effective document, which are values of known shape.

use std::rc::Rc;

use crate::values::cbor::Value;
use crate::values::errors::ValueProblem;
use crate::values::expressions::SchemaProblems;

/// Why bytes are not a document. `Effective::from_document` makes one text of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Problem(String),
    /// A part is missing or has another form.
    Shape,
}

impl From<ValueProblem> for Unreadable {
    fn from(problem: ValueProblem) -> Self {
        Unreadable::Problem(problem.to_string())
    }
}

impl From<SchemaProblems> for Unreadable {
    fn from(problems: SchemaProblems) -> Self {
        Unreadable::Problem(problems.to_string())
    }
}

pub type Reading<T> = Result<T, Unreadable>;

pub fn part<'a>(node: &'a Value, name: &str) -> Reading<&'a Value> {
    node.get(name).ok_or(Unreadable::Shape)
}

/// A map that may be absent.
pub fn map_or_none<'a>(node: &'a Value, name: &str) -> Reading<Option<&'a Value>> {
    match node.get(name) {
        Some(Value::Map(_)) | None => Ok(node.get(name)),
        Some(_) => Err(Unreadable::Shape),
    }
}

pub fn text<'a>(node: &'a Value, name: &str) -> Reading<&'a str> {
    part(node, name)?.as_text().ok_or(Unreadable::Shape)
}

pub fn name(node: &Value, name: &str) -> Reading<Rc<str>> {
    text(node, name).map(Rc::from)
}

pub fn name_or<'a>(node: &'a Value, name: &str, default: &'a str) -> Reading<&'a str> {
    match node.get(name) {
        None => Ok(default),
        Some(value) => value.as_text().ok_or(Unreadable::Shape),
    }
}

pub fn number(node: &Value, name: &str) -> Reading<u64> {
    part(node, name)?.as_nat().ok_or(Unreadable::Shape)
}

pub fn number_or(node: &Value, name: &str, default: u64) -> Reading<u64> {
    match node.get(name) {
        None => Ok(default),
        Some(value) => value.as_nat().ok_or(Unreadable::Shape),
    }
}

pub fn list<'a>(node: &'a Value, name: &str) -> Reading<&'a [Value]> {
    part(node, name)?.as_list().ok_or(Unreadable::Shape)
}

/// The items of a list that may be absent.
pub fn list_or_none<'a>(node: &'a Value, name: &str) -> Reading<&'a [Value]> {
    match node.get(name) {
        None => Ok(&[]),
        Some(value) => value.as_list().ok_or(Unreadable::Shape),
    }
}

/// The texts of a list.
pub fn texts<T: FromIterator<Rc<str>>>(items: &[Value]) -> Reading<T> {
    items.iter().map(|item| item.as_text().map(Rc::from).ok_or(Unreadable::Shape)).collect()
}
