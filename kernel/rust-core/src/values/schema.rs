//! Schemas: compiled type expressions, which check and convert values
//! (`kernel/aos/values/schema.py`).

use std::borrow::Cow;
use std::rc::Rc;

use crate::values::cbor::Value;
use crate::values::errors::ValueProblem;

/// One compiled schema.
#[derive(Debug)]
pub struct Schema {
    pub name: Rc<str>,
}

impl Schema {
    /// A value that the ingress gate decoded -> its normal form.
    pub fn normalise(&self, _value: Value) -> Result<Value, ValueProblem> {
        todo!()
    }

    /// Bytes of another program -> the canonical bytes of the normal form: `data` itself if it is
    /// that already. `max_bytes` holds for both.
    pub fn from_ingress<'a>(
        &self,
        _data: &'a [u8],
        _max_bytes: usize,
    ) -> Result<Cow<'a, [u8]>, ValueProblem> {
        todo!()
    }

    /// As `from_ingress`, with the value too.
    pub fn from_ingress_value<'a>(
        &self,
        _data: &'a [u8],
        _max_bytes: usize,
    ) -> Result<(Cow<'a, [u8]>, Value), ValueProblem> {
        todo!()
    }

    /// Bytes of `encode` -> the value. Refused unless canonical and normal.
    pub fn from_record(&self, _data: &[u8]) -> Result<Value, ValueProblem> {
        todo!()
    }

    /// As `from_record`, but makes no value.
    pub fn check_record(&self, _data: &[u8]) -> Result<(), ValueProblem> {
        todo!()
    }

    /// Bytes that an earlier form of this schema encoded -> the canonical bytes of this one (V-46a):
    /// null in each record for every absent field of type option. `data` itself if none is absent.
    pub fn completed<'a>(&self, _data: &'a [u8]) -> Result<Cow<'a, [u8]>, ValueProblem> {
        todo!()
    }

    /// As `from_record` of `completed`.
    pub fn completed_value(&self, _data: &[u8]) -> Result<Value, ValueProblem> {
        todo!()
    }

    /// Bytes that an earlier or later form of this schema encoded -> the canonical bytes of this one
    /// (V-46b): as `completed`, and without the null fields that this form does not have.
    pub fn fitted<'a>(&self, _data: &'a [u8]) -> Result<Cow<'a, [u8]>, ValueProblem> {
        todo!()
    }

    /// Canonical bytes of a value, which must be in normal form: it is not checked.
    pub fn encode(&self, value: &Value) -> Vec<u8> {
        crate::values::cbor::encode(value)
    }
}
