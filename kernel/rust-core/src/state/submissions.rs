//! The dedup window: recent events by submission id (`core/state/submissions.py`; spec/state.md,
//! SN-20 to SN-23).
//!
//! The newest events are in memory, the others in the chunks of a snapshot. A chunk has the events
//! of `Limits::chunk` sequences, oldest first; a derived row of the store tells which chunk has an
//! id.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::journal::ports::{BlobReader, Find};
use crate::limits::Limits;
use crate::state::cell_index::Put;
use crate::values::cbor::{decode_record, put_array, put_bytes, put_nat, put_text, Value, RECORD};
use crate::values::digests::Hash;
use crate::values::errors::{Failure, Outcome};

/// An event that was submitted under an id: its record, its payload hash and the window time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    pub seq: u64,
    pub payload: Hash,
    pub at_ns: u64,
}

/// The window's events of the `Limits::chunk` sequences from `number * Limits::chunk` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub number: u64,
    pub hash: Hash,
    pub count: u64,
}

/// A submission id, and its event.
pub type Row = (Rc<str>, Submission);

/// Submission ids, oldest first; an id that is submitted again becomes the newest.
pub struct Submissions {
    chunk: u64,
    chunks_held: usize,
    /// Those of the snapshot that the world continues from.
    chunks: VecDeque<Chunk>,
    read: BlobReader,
    /// Looks an id up in the store; without it, only the newest events are found.
    find: Option<Rc<dyn Find>>,
    /// Number of events that only the chunks have.
    base: u64,
    recent: OrderedMap<Rc<str>, Submission>,
    /// The rows of the first chunk that are not forgotten, once they were needed.
    front: Option<VecDeque<Row>>,
    rows_by_chunk: OrderedMap<Hash, Rc<[Row]>>,
    /// The record of the last event that was forgotten.
    evicted: u64,
}

impl Submissions {
    pub fn new(
        chunks: Vec<Chunk>,
        read: BlobReader,
        find: Option<Rc<dyn Find>>,
        limits: &Limits,
    ) -> Self {
        Submissions {
            chunk: limits.chunk,
            chunks_held: limits.chunks_held as usize,
            base: chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(chunk.count)),
            chunks: chunks.into(),
            read,
            find,
            recent: OrderedMap::default(),
            front: None,
            rows_by_chunk: OrderedMap::default(),
            evicted: 0,
        }
    }

    /// Read chunks with `read` from now on.
    pub fn read_with(&mut self, read: BlobReader) {
        self.read = read;
    }

    pub fn len(&self) -> u64 {
        self.base + self.recent.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All ids with their events, oldest first. Damage if a chunk cannot be read.
    pub fn items(&mut self) -> Outcome<Vec<Row>> {
        let mut rows = Vec::new();
        if self.base > 0 {
            rows.extend(self.front_rows()?.iter().cloned());
            for at in 1..self.chunks.len() {
                let chunk = self.chunks[at];
                rows.extend(self.rows(&chunk)?.iter().cloned());
            }
        }
        rows.extend(self.recent.iter().map(|(name, event)| (name.clone(), *event)));
        Ok(rows)
    }

    /// The newest event under an id, or None. Damage if a chunk cannot be read.
    pub fn get(&mut self, submission_id: &str) -> Outcome<Option<Submission>> {
        if let Some(submission) = self.recent.get(submission_id) {
            return Ok(Some(*submission));
        }
        let Some(find) = self.find.as_ref().filter(|_| self.base > 0) else {
            return Ok(None);
        };
        let seq = match find.find(submission_id)? {
            Some(seq) if seq > self.evicted => seq,
            _ => return Ok(None),
        };
        let number = seq / self.chunk;
        let Some(chunk) = self.chunks.iter().find(|chunk| chunk.number == number).copied() else {
            return Ok(None);
        };
        let rows = self.rows(&chunk)?;
        let row = rows.iter().find(|(name, row)| row.seq == seq && &**name == submission_id);
        Ok(row.map(|(_, submission)| *submission))
    }

    /// Add the newest event. Forget all older than `oldest_ns`, and all but `count_max`.
    pub fn remember(
        &mut self,
        submission_id: Rc<str>,
        event: Submission,
        oldest_ns: u64,
        count_max: u64,
    ) -> Outcome<()> {
        while !self.is_empty() && self.oldest()?.at_ns < oldest_ns {
            self.forget_oldest()?;
        }
        self.recent.remove(&*submission_id);
        self.recent.insert(submission_id, event);
        while self.len() > count_max {
            self.forget_oldest()?;
        }
        Ok(())
    }

    fn oldest(&mut self) -> Outcome<Submission> {
        if self.base > 0 {
            return Ok(self.front_rows()?[0].1);
        }
        Ok(*self.recent.first().expect("an event, for the window is not empty").1)
    }

    fn forget_oldest(&mut self) -> Outcome<()> {
        if self.base == 0 {
            if let Some((_, event)) = self.recent.pop_first() {
                self.evicted = event.seq;
            }
            return Ok(());
        }
        let front = self.front_rows()?;
        let (_, event) = front.pop_front().expect("rows that are not empty");
        let is_last = front.is_empty();
        self.evicted = event.seq;
        self.base -= 1;
        if is_last {
            self.chunks.pop_front();
            self.front = None;
        }
        Ok(())
    }

    /// The rows of the first chunk that are not forgotten: at least one. Call it only while there
    /// are events that only the chunks have.
    fn front_rows(&mut self) -> Outcome<&mut VecDeque<Row>> {
        while self.front.as_ref().is_none_or(VecDeque::is_empty) {
            let Some(chunk) = self.chunks.front().copied() else {
                return Err(Failure::damage("the dedup window ends before its chunks do"));
            };
            let evicted = self.evicted;
            let rows = self.rows(&chunk)?;
            let front: VecDeque<Row> =
                rows.iter().filter(|(_, event)| event.seq > evicted).cloned().collect();
            if front.is_empty() {
                self.chunks.pop_front();
            }
            self.front = Some(front);
        }
        Ok(self.front.as_mut().expect("the rows of the first chunk"))
    }

    fn rows(&mut self, chunk: &Chunk) -> Outcome<Rc<[Row]>> {
        if let Some(rows) = self.rows_by_chunk.get(&chunk.hash) {
            return Ok(rows.clone());
        }
        let rows: Rc<[Row]> = read_chunk(&self.read.read(&chunk.hash)?, chunk, self.chunk)?.into();
        self.rows_by_chunk.insert(chunk.hash, rows.clone());
        while self.rows_by_chunk.len() > self.chunks_held {
            self.rows_by_chunk.pop_first();
        }
        Ok(rows)
    }

    // Reading as data

    /// The record of the last event that was forgotten.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Number of events that only the chunks have.
    pub fn in_chunks(&self) -> u64 {
        self.base
    }

    /// The chunks that have an event of the window.
    pub fn kept_chunks(&self) -> &VecDeque<Chunk> {
        &self.chunks
    }

    /// The events that no chunk has, oldest first.
    pub fn newest(&self) -> impl Iterator<Item = (&Rc<str>, &Submission)> {
        self.recent.iter()
    }

    // Snapshots

    /// All chunks of the current window; `put` receives the bytes of the new ones.
    pub fn chunks(&mut self, put: Put) -> Outcome<Vec<Chunk>> {
        if self.base > 0 {
            self.front_rows()?;
        }
        let mut chunks: Vec<Chunk> = self.chunks.iter().copied().collect();
        if let (Some(first), Some(front)) = (chunks.first_mut(), &self.front) {
            if (front.len() as u64) < first.count {
                *first = write_chunk(first.number, front.iter(), put);
            }
        }
        let recent: Vec<Row> =
            self.recent.iter().map(|(name, event)| (name.clone(), *event)).collect();
        let size = self.chunk;
        let number = |row: &Row| row.1.seq / size;
        for rows in recent.chunk_by(|one, next| number(one) == number(next)) {
            let number = number(&rows[0]);
            let earlier_rows: Rc<[Row]> = match chunks.last().copied() {
                Some(last) if last.number == number => {
                    let front = self.front.as_ref().filter(|_| chunks.len() == 1);
                    let earlier_rows = match front {
                        Some(front) => front.iter().cloned().collect(),
                        None => self.rows(&last)?,
                    };
                    chunks.pop();
                    earlier_rows
                }
                _ => Rc::new([]),
            };
            chunks.push(write_chunk(number, earlier_rows.iter().chain(rows), put));
        }
        Ok(chunks)
    }

    /// Continue from `chunks`, which are the window after record `at`.
    pub fn rebase(&mut self, chunks: &[Chunk], at: u64) {
        let total = self.len();
        while self.recent.first().is_some_and(|(_, event)| event.seq <= at) {
            self.recent.pop_first();
        }
        self.base = total - self.recent.len() as u64;
        self.front = None;
        let first = (self.evicted + 1) / self.chunk;
        // All their events may have been forgotten since.
        self.chunks = match self.base {
            0 => VecDeque::new(),
            _ => chunks.iter().filter(|chunk| chunk.number >= first).copied().collect(),
        };
    }
}

/// Write the rows of a chunk.
pub fn write_chunk<'a>(
    number: u64,
    rows: impl Iterator<Item = &'a Row> + Clone,
    put: Put,
) -> Chunk {
    let count = rows.clone().count();
    let mut out = Vec::with_capacity(9 + 96 * count);
    put_array(&mut out, count);
    for (name, row) in rows {
        put_array(&mut out, 4);
        put_nat(&mut out, row.seq);
        put_text(&mut out, name);
        put_bytes(&mut out, &row.payload);
        put_nat(&mut out, row.at_ns);
    }
    Chunk { number, hash: put(out), count: count as u64 }
}

/// Inverse of `write_chunk`. Damage if these are not the bytes of such a chunk.
pub fn read_chunk(data: &[u8], chunk: &Chunk, size: u64) -> Outcome<Vec<Row>> {
    let value = decode_record(data, RECORD).map_err(|problem| {
        Failure::Damage(format!("a chunk of the dedup window is not canonical CBOR: {problem}"))
    })?;
    let values = match value {
        Value::List(values) if values.len() as u64 == chunk.count => values,
        _ => {
            return Err(Failure::Damage(format!(
                "chunk {} of the dedup window: expected {} events",
                chunk.number, chunk.count
            )))
        }
    };
    let first = chunk.number as u128 * size as u128;
    let mut next = first.max(1);
    let mut rows = Vec::with_capacity(values.len());
    for value in values {
        let Some(row) = row_of(value).filter(|(_, event)| {
            let seq = event.seq as u128;
            next <= seq && seq < first + size as u128
        }) else {
            return Err(Failure::Damage(format!(
                "chunk {} of the dedup window holds what is no event",
                chunk.number
            )));
        };
        next = row.1.seq as u128 + 1;
        rows.push(row);
    }
    Ok(rows)
}

fn row_of(value: Value) -> Option<Row> {
    let Value::List(columns) = value else { return None };
    let [seq, name, payload, at_ns] = <[Value; 4]>::try_from(columns).ok()?;
    let submission = Submission {
        seq: seq.as_nat()?,
        payload: payload.as_bytes()?.try_into().ok()?,
        at_ns: at_ns.as_nat()?,
    };
    Some((name.as_text()?.into(), submission))
}
