//! Compare schemas of two manifests (`kernel/aos/manifest/shapes.py`): whether they have the same
//! values (M-61), or the new one only has more fields that may be absent (M-62).

use std::rc::Rc;

use crate::manifest::effective::{Effect, Effective};
use crate::manifest::expressions::{alike, extends};
use crate::values::expressions::Type;
use crate::values::schema::Schema;

/// The schemas of two manifests.
pub struct Shapes<'a> {
    old: &'a Effective,
    new: &'a Effective,
    is_one_manifest: bool,
}

impl<'a> Shapes<'a> {
    pub fn new(old: &'a Effective, new: &'a Effective) -> Self {
        Shapes { old, new, is_one_manifest: old == new }
    }

    /// Whether both schemas have exactly the same values; their names may differ. Two absent ones
    /// are the same.
    pub fn same(&self, old: Option<&Schema>, new: Option<&Schema>) -> bool {
        let (Some(old), Some(new)) = (old, new) else { return old.is_none() && new.is_none() };
        alike(
            &reference(old),
            &|name| type_in(self.old, name),
            &reference(new),
            &|name| type_in(self.new, name),
            self.is_one_manifest,
        )
    }

    /// Whether every value of `old`, with null for absent options, is a value of `new`.
    pub fn extends(&self, old: &Schema, new: &Schema) -> bool {
        extends(
            &reference(old),
            &|name| type_in(self.old, name),
            &reference(new),
            &|name| type_in(self.new, name),
            self.is_one_manifest,
        )
    }

    /// Whether a workflow that knows the old effect can use the new one. Its params may have got
    /// fields of type option; its receipts must be the same, because an open effect's receipt is
    /// read by the schema with which it was requested (K-72b).
    pub fn same_effect(&self, old: &Effect, new: &Effect) -> bool {
        old.executor == new.executor
            && old.params.name == new.params.name
            && old.receipt.name == new.receipt.name
            && self.extends(&old.params, &new.params)
            && self.same(Some(&old.receipt), Some(&new.receipt))
    }
}

fn reference(schema: &Schema) -> Type {
    Type::TypeRef(Rc::clone(&schema.name))
}

fn type_in<'a>(effective: &'a Effective, name: &str) -> Option<&'a Type> {
    effective.schemas.get(name).map(|schema| &schema.type_)
}
