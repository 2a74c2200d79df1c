//! Fold the journal of a bundle, and compare what it states with what the fold gives: its snapshots,
//! its head, its header and its erased values (spec/bundle.md, B-50; spec/audit.md, A-12a).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Instant;

use aos_core::collections::SeededMap;
use aos_core::errors::Sentence;
use aos_core::journal::frame::{Frame, Head, Tip};
use aos_core::journal::inputs::{fork_message, genesis_message};
use aos_core::journal::ports::{BlobReader, Blobs};
use aos_core::journal::record_codec::from_bytes;
use aos_core::journal::records::{Record, Snapshot};
use aos_core::limits::LIMITS;
use aos_core::snapshot::load::{format_of, load};
use aos_core::snapshot::take::{rebase, take, DEFAULT, FORMATS};
use aos_core::state::eras::trusting;
use aos_core::state::fold::folding;
use aos_core::state::state::State;
use aos_core::values::digests::{content_hash, hash_text, Hash};
use aos_core::values::errors::{Failure, Outcome};

use crate::bundle::{Bundle, ErasedValue};
use crate::problem::Problem;
use crate::signature::is_signed;

/// The checks that a sound bundle has passed. `root` is the root of the world at its end: the hash of the
/// snapshot that would be taken there.
pub struct Report {
    pub world: Hash,
    pub seq: u64,
    pub frame: Hash,
    pub log_root: Hash,
    pub root: Hash,
    pub frames: u64,
    pub records: u64,
    pub values: u64,
    pub erased: u64,
    /// Snapshots that were taken again and compared.
    pub snapshots: u64,
    /// The record after which the newest snapshot in the bundle was taken, which was loaded.
    pub loaded: Option<u64>,
    pub seconds: f64,
}

/// Check and fold the bundle at `path`.
pub fn fold_bundle(path: &str) -> Result<Report, Problem> {
    let began = Instant::now();
    let bundle = Rc::new(Bundle::open(path)?);
    if bundle.header.is_archive {
        return Err(Problem::Usage(format!(
            "{path}: this is an archive of records that were pruned: expected a bundle of a whole \
             world (aos export makes one)"
        )));
    }
    let erased = bundle.check()?;
    let mut pass = Pass::new(path, &bundle, &erased)?;
    bundle.frames(|frame| pass.take(&frame))?;
    let loaded = pass.load_newest()?;
    pass.finish(&erased)?;
    let Pass { state: Some(state), reader, compared, .. } = pass else {
        return Err(Problem::Damage(format!("{path}: the journal is empty: it has no genesis")));
    };
    let root = take(&state, &mut |data| content_hash(&data), DEFAULT)
        .map_err(|failure| reader.problem(path, failure))?
        .document;
    Ok(Report {
        world: state.tip.world,
        seq: state.tip.seq,
        frame: state.tip.frame,
        log_root: state.tip.log.root(),
        root,
        frames: state.tip.log.size,
        records: state.tip.seq,
        values: bundle.values - erased.len() as u64,
        erased: erased.len() as u64,
        snapshots: compared,
        loaded,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// The values of a bundle, and parts of snapshots that were taken again and are not in it.
struct Reader {
    bundle: Rc<Bundle>,
    parts: RefCell<SeededMap<Hash, Vec<u8>>>,
    /// Why a value could not be read, if it was not damage.
    unread: RefCell<Option<Problem>>,
}

impl Reader {
    fn new(bundle: &Rc<Bundle>) -> Rc<Self> {
        let (parts, unread) = Default::default();
        Rc::new(Reader { bundle: bundle.clone(), parts, unread })
    }

    /// Keep a part of a snapshot, unless the bundle has it.
    fn put(&self, data: Vec<u8>) -> Hash {
        let hash = content_hash(&data);
        if !matches!(self.bundle.has_blob(&hash), Ok(true)) {
            self.parts.borrow_mut().insert(hash, data);
        }
        hash
    }

    fn problem(&self, location: &str, failure: Failure) -> Problem {
        match failure {
            Failure::Damage(text) => Problem::Damage(format!("{location}: {text}")),
            Failure::Erased | Failure::Host | Failure::Unwritable => {
                match self.unread.take().expect("the reader kept its problem") {
                    Problem::Erased(text) => Problem::Damage(format!("{location}: {text}")),
                    other => other,
                }
            }
        }
    }
}

impl Blobs for Reader {
    fn read(&self, hash: &Hash) -> Outcome<Vec<u8>> {
        if let Some(part) = self.parts.borrow().get(hash) {
            return Ok(part.clone());
        }
        self.bundle.blob(hash).map_err(|problem| match problem {
            Problem::Damage(text) => Failure::Damage(text),
            other => {
                let is_erased = matches!(other, Problem::Erased(_));
                self.unread.replace(Some(other));
                if is_erased {
                    Failure::Erased
                } else {
                    Failure::Host
                }
            }
        })
    }
}

/// One pass over the frames.
struct Pass<'a> {
    path: &'a str,
    bundle: &'a Rc<Bundle>,
    reader: Rc<Reader>,
    blobs: BlobReader,
    /// None before the first frame.
    state: Option<State>,
    /// The documents of the journal's snapshots, by the record that each was taken after.
    recorded: BTreeMap<u64, Hash>,
    /// The document of each snapshot that was taken again, by the record that it was taken after.
    documents: BTreeMap<u64, Hash>,
    /// The newest announced snapshot that the bundle has.
    newest: Option<(u64, Hash)>,
    compared: u64,
    /// The records that erased values, as the bundle gives them for each value.
    erasing: BTreeMap<u64, BTreeSet<&'a [u8]>>,
}

impl<'a> Pass<'a> {
    fn new(
        path: &'a str,
        bundle: &'a Rc<Bundle>,
        erased: &'a [ErasedValue],
    ) -> Result<Self, Problem> {
        let reader = Reader::new(bundle);
        let mut erasing: BTreeMap<u64, BTreeSet<&[u8]>> = BTreeMap::new();
        for value in erased {
            erasing.entry(value.seq).or_default().insert(&value.record);
        }
        Ok(Pass {
            path,
            bundle,
            blobs: reader.clone(),
            reader,
            state: None,
            recorded: recorded_snapshots(bundle)?,
            documents: BTreeMap::new(),
            newest: None,
            compared: 0,
            erasing,
        })
    }

    /// Fold the next frame, and take the snapshot after it if the journal has one.
    fn take(&mut self, frame: &Frame) -> Result<(), Problem> {
        let location = format!("{}: frame {}", self.path, frame.header.first);
        let mut state = self.state.take().unwrap_or_else(|| {
            State::empty(Tip::of(frame.header.world), &self.blobs, None, LIMITS, trusting())
        });
        for (seq, record) in (frame.header.first..=frame.header.last).zip(&frame.records) {
            let mut erasing = self.erasing.get(&seq).into_iter().flatten();
            if erasing.any(|erasing| *erasing != &record[..]) {
                return Err(Problem::Damage(format!(
                    "{location}, record {seq}: it is not the record that the bundle gives as the \
                     one that erased a value"
                )));
            }
        }
        let blobs = self.blobs.clone();
        let folded = folding(&mut state, frame, &blobs, |_, record| match &record {
            Record::Snapshot(record) => self.compare(record),
            Record::Genesis(record) => {
                let message = genesis_message(&record.nonce, &record.world_key, &record.operators);
                check_signed(record.seq, &message, &record.signature, &record.world_key)
            }
            Record::Fork(record) => {
                let message = fork_message(record);
                check_signed(record.seq, &message, &record.signature, &record.world_key)
            }
            _ => Ok(()),
        });
        folded.map_err(|failure| self.reader.problem(&location, failure))?;
        let seq = state.tip.seq;
        if let Some(document) = self.recorded.get(&seq) {
            let mut taken = None;
            for format in self.formats_of(document) {
                let layers = take(&state, &mut |data| self.reader.put(data), format)
                    .map_err(|failure| self.reader.problem(&location, failure))?;
                let is_recorded = layers.document == *document;
                taken = Some(layers);
                if is_recorded {
                    break;
                }
            }
            let layers = taken.expect("there is a format");
            self.documents.insert(seq, layers.document);
            rebase(&mut state, &layers)
                .map_err(|failure| self.reader.problem(&location, failure))?;
        }
        self.state = Some(state);
        Ok(())
    }

    /// The format of a recorded snapshot; each, if the bundle does not have its document (A-12a).
    fn formats_of(&self, document: &Hash) -> Vec<u64> {
        let data = self.bundle.blob(document).ok();
        let format = data.and_then(|data| format_of(&data));
        format.map_or(FORMATS.to_vec(), |format| vec![format])
    }

    fn compare(&mut self, record: &Snapshot) -> Outcome<()> {
        let Some(computed) = self.documents.get(&record.at) else { return Ok(()) };
        if *computed != record.document.hash {
            let at = record.at;
            let problem = format!("the snapshot after record {at} is not of the world as it was");
            let sentence = Sentence {
                problem: &problem,
                location: Some(&format!("record {}", record.seq)),
                expected: Some(&hash_text(computed)),
                actual: Some(&hash_text(&record.document.hash)),
                hint: None,
            };
            return Err(Failure::Damage(sentence.text()));
        }
        self.compared += 1;
        if matches!(self.bundle.has_blob(computed), Ok(true)) {
            self.newest = Some((record.at, *computed));
        }
        Ok(())
    }

    /// Load the newest snapshot of the bundle, from the bundle alone, and take it again.
    fn load_newest(&self) -> Result<Option<u64>, Problem> {
        let Some((at, document)) = &self.newest else { return Ok(None) };
        let reader = Reader::new(self.bundle);
        let blobs: BlobReader = reader.clone();
        let location = format!("{}: the snapshot after record {at}", self.path);
        let taken = load(document, &blobs, None, LIMITS, trusting())
            .and_then(|state| {
                let format = format_of(&blobs.read(document)?).unwrap_or(DEFAULT);
                take(&state, &mut |data| content_hash(&data), format)
            })
            .map_err(|failure| reader.problem(&location, failure))?;
        if taken.document != *document {
            let sentence = Sentence {
                problem: "it was loaded, and the world that it gives has another snapshot",
                location: Some(&location),
                expected: Some(&hash_text(document)),
                actual: Some(&hash_text(&taken.document)),
                hint: None,
            };
            return Err(Problem::Damage(sentence.text()));
        }
        Ok(Some(*at))
    }

    /// Check that the journal ends as the signed head says, and is of the world in the header.
    fn finish(&self, erased: &[ErasedValue]) -> Result<(), Problem> {
        let Some(state) = &self.state else { return Ok(()) };
        let (path, head, header) = (self.path, self.bundle.head()?, &self.bundle.header);
        if Head::of(&state.tip).message() != head.message() {
            let sentence = Sentence {
                problem: "the journal does not end as its head says",
                location: Some(path),
                expected: Some(&format!("record {}", head.seq)),
                actual: Some(&format!("record {}", state.tip.seq)),
                hint: None,
            };
            return Err(Problem::Damage(sentence.text()));
        }
        if !is_signed(&head.message(), &head.signature, &state.world_key) {
            return Err(Problem::Damage(format!(
                "{path}: the head is not signed by the world's key"
            )));
        }
        if header.world != state.tip.world
            || header.world_key != *state.world_key
            || header.operators != state.operators
        {
            let text = format!("{path}: the header does not say what the genesis says");
            return Err(Problem::Damage(text));
        }
        erased
            .iter()
            .filter(|value| value.seq > head.seq)
            .try_for_each(|value| check_later(path, state, value))
    }
}

/// Check that a world's key signed the record with which the world begins (J-35, J-43).
fn check_signed(seq: u64, message: &[u8], signature: &[u8], world_key: &[u8]) -> Outcome<()> {
    match is_signed(message, signature, world_key) {
        true => Ok(()),
        false => Err(Failure::Damage(format!("record {seq} is not signed by the world's key"))),
    }
}

/// Check the record that erased a value after the bundle's end: an operator signed it (B-52).
fn check_later(path: &str, state: &State, erased: &ErasedValue) -> Result<(), Problem> {
    let command = erased.command().map_err(|text| Problem::Damage(format!("{path}: {text}")))?;
    let message = command.message(&state.tip.world);
    let mut operators = state.operators.iter();
    let operator = operators.find(|operator| operator.name == command.principal);
    if operator.is_some_and(|operator| is_signed(&message, &command.signature, &operator.key)) {
        return Ok(());
    }
    Err(Problem::Damage(format!(
        "{path}: no operator of the world signed record {}, which erased a value after the bundle's \
         end",
        erased.seq
    )))
}

/// The records after which the frames say that a snapshot was taken.
fn recorded_snapshots(bundle: &Bundle) -> Result<BTreeMap<u64, Hash>, Problem> {
    // The encoding is canonical, so a snapshot record always contains these bytes.
    const KIND: &[u8] = b"\x64kind\x68snapshot";
    let mut recorded = BTreeMap::new();
    bundle.frames(|frame| {
        for data in &frame.records {
            if data.windows(KIND.len()).any(|part| part == KIND) {
                if let Ok(Record::Snapshot(record)) = from_bytes(data) {
                    recorded.insert(record.at, record.document.hash);
                }
            }
        }
        Ok(())
    })?;
    Ok(recorded)
}
