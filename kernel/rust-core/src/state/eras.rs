//! The manifests that instances of a world may still run under (K-72;
//! `kernel/aos/core/state/eras.py`).
//!
//! A strict apply requires that nothing is in flight, so every instance continues under the new
//! manifest. A pinning apply leaves instances under earlier manifests. So each manifest since the
//! last strict apply is an *era*; the last era is the one in force.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::journal::ports::{BlobReader, Judge};
use crate::manifest::effective::{Effective, Upgrade};
use crate::values::digests::Hash;
use crate::values::errors::{Failure, Outcome};

/// Number of manifests kept decoded; others are read again when an instance needs them.
pub const KEPT_MAX: usize = 16;

/// Reads the document of a manifest: `Effective::from_document` in the journal of the own world,
/// which has judged it, and a function that judges it in that of another.
pub type ManifestOf = Rc<dyn Fn(&[u8]) -> Outcome<Rc<Effective>>>;

/// The reader of documents that were judged before.
pub fn trusting() -> ManifestOf {
    Rc::new(Effective::from_document)
}

/// The reader of documents that may be forged: `judge` says what is wrong with one.
pub fn judging(judge: Rc<dyn Judge>) -> ManifestOf {
    Rc::new(move |document| match judge.recorded_problem(document)? {
        Some(problem) => Err(Failure::Damage(problem)),
        None => Effective::from_document(document),
    })
}

/// A manifest, the record that put it in force, and the workflows whose instances took it at their
/// next step although they were in flight (K-75).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Era {
    pub seq: u64,
    pub manifest: Hash,
    pub in_place: BTreeSet<Rc<str>>,
}

/// The era that begins with `effective`, which record `seq` puts in force.
pub fn era_of(seq: u64, effective: &Effective) -> Era {
    let in_place = effective
        .workflows
        .values()
        .filter(|workflow| workflow.upgrade == Upgrade::InPlace)
        .map(|workflow| workflow.name.clone())
        .collect();
    Era { seq, manifest: effective.hash, in_place }
}

/// The eras of a world, the oldest first; none before its first manifest.
pub struct Eras {
    all: Vec<Era>,
    pub manifest_of: ManifestOf,
    read: Option<BlobReader>,
    manifests: RefCell<OrderedMap<Hash, Rc<Effective>>>,
}

impl Eras {
    pub fn new(all: Vec<Era>, read: Option<BlobReader>, manifest_of: ManifestOf) -> Self {
        Eras { all, manifest_of, read, manifests: RefCell::default() }
    }

    pub fn all(&self) -> &[Era] {
        &self.all
    }

    /// Whether all instances run under the manifest in force.
    pub fn is_one(&self) -> bool {
        self.all.len() < 2
    }

    /// Put another manifest in force. Unless it `pins`, forget the earlier eras.
    pub fn begin(&mut self, era: Era, effective: Rc<Effective>, read: &BlobReader, pins: bool) {
        if !pins {
            self.all.clear();
        }
        self.read = Some(read.clone());
        self.keep(era.manifest, effective);
        self.all.push(era);
    }

    /// The manifest of the era that record `seq` began. Damage if it cannot be read.
    pub fn at(&self, seq: u64) -> Outcome<Rc<Effective>> {
        let Some(era) = self.all.iter().find(|era| era.seq == seq) else {
            return Err(Failure::Damage(format!("record {seq} began no manifest of this world")));
        };
        let kept = self.manifests.borrow().get(&era.manifest).cloned();
        if let Some(effective) = kept {
            return Ok(effective);
        }
        let Some(read) = &self.read else {
            return Err(Failure::Damage(format!(
                "the manifest of record {seq} cannot be read: no reader of blobs was given"
            )));
        };
        let effective = (self.manifest_of)(&read.read(&era.manifest)?)?;
        self.keep(era.manifest, effective.clone());
        Ok(effective)
    }

    fn keep(&self, hash: Hash, effective: Rc<Effective>) {
        let mut manifests = self.manifests.borrow_mut();
        manifests.insert(hash, effective);
        while manifests.len() > KEPT_MAX {
            manifests.pop_first();
        }
    }
}
