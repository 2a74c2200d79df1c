//! Questions about the type expressions of `defschema.type`, without a value
//! (`kernel/aos/manifest/expressions.py`). Expressions are those that `compile_schemas` accepted.

use std::rc::Rc;

use crate::collections::SeededSet;
use crate::values::expressions::{Parts, Type};

/// The type of a schema by its name; None if the manifest has no such schema.
pub type Types<'a> = &'a dyn Fn(&str) -> Option<&'a Type>;

/// Call `visit` with every reference of a type.
fn references(type_: &Type, visit: &mut impl FnMut(&Rc<str>)) {
    match type_ {
        Type::Scalar(_) => {}
        Type::TypeRef(name) => visit(name),
        Type::Record(parts) | Type::Variant(parts) => {
            parts.iter().for_each(|(_, part)| references(part, visit));
        }
        Type::ListOf(item) | Type::SetOf(item) | Type::Option(item) | Type::MapOf(_, item) => {
            references(item, visit)
        }
    }
}

/// Whether the schema `name` is `wanted`, or reaches it by references.
pub fn reaches(name: &str, wanted: &str, types: Types) -> bool {
    let mut reached: SeededSet<Rc<str>> = SeededSet::default();
    let mut waiting: Vec<Rc<str>> = vec![Rc::from(name)];
    while let Some(name) = waiting.pop() {
        let Some(type_) = types(&name) else { continue };
        if &*name == wanted {
            return true;
        }
        if reached.insert(name) {
            references(type_, &mut |name| waiting.push(name.clone()));
        }
    }
    false
}

/// The type at the end of a chain of refs.
pub fn resolved<'a>(mut type_: &'a Type, types: Types<'a>) -> &'a Type {
    while let Type::TypeRef(name) = type_ {
        match types(name) {
            Some(next) => type_ = next,
            None => break,
        }
    }
    type_
}

/// Whether two types of two manifests have the same values, with refs followed.
pub fn alike<'a>(
    first: &'a Type,
    types: Types<'a>,
    second: &'a Type,
    other_types: Types<'a>,
    is_one_manifest: bool,
) -> bool {
    Comparison::new(types, other_types, is_one_manifest, false).same(first, second)
}

/// Whether `new` is `old` except for further fields of type option in its records, at any depth
/// (M-62).
pub fn extends<'a>(
    old: &'a Type,
    types: Types<'a>,
    new: &'a Type,
    new_types: Types<'a>,
    is_one_manifest: bool,
) -> bool {
    Comparison::new(types, new_types, is_one_manifest, true).same(old, new)
}

struct Comparison<'a> {
    types: (Types<'a>, Types<'a>),
    is_one_manifest: bool,
    may_grow: bool,
    visited: SeededSet<(Rc<str>, Rc<str>)>,
}

impl<'a> Comparison<'a> {
    fn new(
        types: Types<'a>,
        other_types: Types<'a>,
        is_one_manifest: bool,
        may_grow: bool,
    ) -> Self {
        let visited = SeededSet::default();
        Comparison { types: (types, other_types), is_one_manifest, may_grow, visited }
    }

    fn same(&mut self, first: &'a Type, second: &'a Type) -> bool {
        if let (Type::TypeRef(first), Type::TypeRef(second)) = (first, second) {
            if (first == second && self.is_one_manifest)
                || !self.visited.insert((first.clone(), second.clone()))
            {
                return true;
            }
        }
        match (resolved(first, self.types.0), resolved(second, self.types.1)) {
            (Type::Scalar(first), Type::Scalar(second)) => first == second,
            (Type::ListOf(first), Type::ListOf(second))
            | (Type::SetOf(first), Type::SetOf(second))
            | (Type::Option(first), Type::Option(second)) => self.same(first, second),
            (Type::MapOf(first_key, first), Type::MapOf(second_key, second)) => {
                first_key == second_key && self.same(first, second)
            }
            (Type::Record(first), Type::Record(second)) => {
                self.same_parts(first, second, self.may_grow)
            }
            (Type::Variant(first), Type::Variant(second)) => self.same_parts(first, second, false),
            _ => false,
        }
    }

    /// Both are in canonical order.
    fn same_parts(&mut self, first: &'a Parts, second: &'a Parts, may_grow: bool) -> bool {
        let mut rest = second.iter();
        for (name, part) in first {
            loop {
                match rest.next() {
                    Some((other_name, other)) if other_name == name => {
                        if !self.same(part, other) {
                            return false;
                        }
                        break;
                    }
                    Some((_, added)) if may_grow && self.is_option(added) => {}
                    _ => return false,
                }
            }
        }
        rest.all(|(_, added)| may_grow && self.is_option(added))
    }

    fn is_option(&self, type_: &'a Type) -> bool {
        matches!(resolved(type_, self.types.1), Type::Option(_))
    }
}
