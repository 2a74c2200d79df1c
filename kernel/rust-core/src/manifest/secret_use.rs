//! Check the secrets that an effect's params name (`kernel/aos/manifest/secret_use.py`, M-56).

use crate::manifest::effective::Effective;
use crate::values::cbor::{Key, Value};
use crate::values::errors::{quoted, segment};
use crate::values::expressions::{Parts, Type};

pub const SECRET_REF: &str = "sys/SecretRef@1";

/// A sentence about the first reference that is not allowed; None if all are. It is hashed.
///
/// `params_value` is in normal form. Without secrets in the manifest the answer is None: then HTTP
/// refuses references at its gate (M-52), and for other effects they are plain data.
pub fn problem(
    effective: &Effective,
    workflow: &str,
    effect: &str,
    params_value: &Value,
) -> Option<String> {
    let definition = effective.effects.get(effect)?;
    if !definition.takes_secrets || effective.secrets.is_empty() {
        return None;
    }
    let mut search = Search { effective, workflow, problem: None };
    search.walk(&Type::TypeRef(definition.params.name.clone()), params_value, "$");
    search.problem
}

/// A walk through a value in fixed order, which ends at the first problem.
struct Search<'a> {
    effective: &'a Effective,
    workflow: &'a str,
    problem: Option<String>,
}

impl Search<'_> {
    fn walk(&mut self, type_: &Type, value: &Value, path: &str) {
        if self.problem.is_some() {
            return;
        }
        // A chain of aliases may be as long as a manifest.
        let (effective, mut type_) = (self.effective, type_);
        while let Type::TypeRef(name) = type_ {
            if &**name == SECRET_REF {
                return self.check(value, path);
            }
            let Some(schema) = effective.schemas.get(name) else { return };
            type_ = &schema.type_;
        }
        match (type_, value) {
            (Type::Record(fields), _) => {
                // By name, because the document does not keep the order in which the author wrote
                // them.
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                for (name, inside) in fields {
                    if let Some(part) = value.get(name) {
                        self.walk(inside, part, &below(path, &Key::Text(name.to_string())));
                    }
                }
            }
            (Type::Variant(arms), _) => {
                let (tag, part) = (value.get("$tag").and_then(Value::as_text), value.get("$value"));
                if let (Some(inside), Some(part)) = (tag.and_then(|tag| arm(arms, tag)), part) {
                    self.walk(inside, part, &below(path, &Key::Text("$value".to_string())));
                }
            }
            (Type::Option(inside), _) if *value != Value::Null => self.walk(inside, value, path),
            (Type::MapOf(_, item), Value::Map(entries)) if !is_scalar(item) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by(|a, b| order_of(&a.0).cmp(&order_of(&b.0)));
                for (key, part) in entries {
                    self.walk(item, part, &below(path, key));
                }
            }
            (Type::ListOf(item) | Type::SetOf(item), Value::List(items)) if !is_scalar(item) => {
                for (index, part) in items.iter().enumerate() {
                    self.walk(item, part, &below(path, &Key::Int(index as i128)));
                }
            }
            _ => {}
        }
    }

    fn check(&mut self, reference: &Value, path: &str) {
        let alias = reference.get("alias").and_then(Value::as_text);
        let version = reference.get("version").and_then(Value::as_nat);
        let (Some(alias), Some(version)) = (alias, version) else { return };
        let name = format!("{alias}@{version}");
        self.problem = match self.effective.secrets.get(name.as_str()) {
            None => Some(format!("{path}: secret {} is not in the manifest", quoted(&name))),
            Some(secret) if !secret.may_be_used_by(self.workflow) => Some(format!(
                "{path}: secret {} may not be used by {}",
                quoted(&name),
                self.workflow
            )),
            Some(_) => None,
        };
    }
}

fn below(path: &str, key: &Key) -> String {
    format!("{path}{}", segment(key))
}

fn arm<'a>(arms: &'a Parts, tag: &str) -> Option<&'a Type> {
    arms.iter().find(|(name, _)| &**name == tag).map(|(_, arm)| arm)
}

fn is_scalar(type_: &Type) -> bool {
    matches!(type_, Type::Scalar(_))
}

/// Keys of one map are all integers or all text: this is the order of their values.
fn order_of(key: &Key) -> (i128, &str) {
    match key {
        Key::Int(n) => (*n, ""),
        Key::Text(text) => (0, text),
    }
}
