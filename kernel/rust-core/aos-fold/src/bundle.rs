//! A bundle: its frames, values and head (spec/bundle.md, B-10 to B-18 and B-30 to B-36;
//! `kernel/aos/store/bundle/{items,reader}.py`).
//!
//! A length in the file is compared with the size of the file before it is used. `check` reads every
//! byte once; later reads check each value again by its hash.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use aos_core::errors::Sentence;
use aos_core::journal::frame::{read_frame, Frame, Head, FRAME_BYTES_MAX};
use aos_core::journal::record_codec::from_bytes;
use aos_core::journal::records::{Control, Principal, Record};
use aos_core::journal::vocabulary::ControlAction;
use aos_core::values::cbor::{decode_record, put_head, Bounds, Key, Value, BYTES, RECORD};
use aos_core::values::digests::{content_hash, hash_text, hex, Hash, HASH_BYTES};

use crate::problem::{damage_text, Problem};
use crate::words::thousands;

const FORMAT: i128 = 1;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const ROW_BYTES: u64 = HASH_BYTES as u64 + 8;
const KEY_BYTES: usize = 32;
const END_BODY_BYTES: u64 = 8 + 8 + HASH_BYTES as u64;
/// The last item, whole.
const END_BYTES: u64 = 1 + 4 + 2 + END_BODY_BYTES;
/// The longest opening of an item.
const OPENING_BYTES_MAX: u64 = 1 + 11 + 9;
/// Bytes that are read at a time of a long item that is only hashed.
const PIECE_BYTES: u64 = MIB;
const ROWS_AT_ONCE: u64 = 1024;
const AGAIN: &str = "copy or export it again";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Header,
    Frame,
    Blob,
    Erased,
    Head,
    Index,
    End,
}

const KINDS: [(Kind, &str, u64); 7] = [
    (Kind::Header, "aos-bundle", MIB),
    (Kind::Frame, "frame", FRAME_BYTES_MAX as u64),
    (Kind::Blob, "blob", 1024 * MIB),
    (Kind::Erased, "erased", 64 * KIB),
    (Kind::Head, "head", 4 * KIB),
    (Kind::Index, "index", 1 << 48),
    (Kind::End, "end", END_BODY_BYTES),
];

impl Kind {
    fn row(self) -> &'static (Kind, &'static str, u64) {
        &KINDS[self as usize]
    }

    fn name(self) -> &'static str {
        self.row().1
    }

    /// The first bytes of an item of this kind: an array of two, and the text.
    fn prefix(self) -> Vec<u8> {
        let mut prefix = vec![0x82, 0x60 | self.name().len() as u8];
        prefix.extend_from_slice(self.name().as_bytes());
        prefix
    }
}

/// The bytes before an item's body: its kind, and the sizes of this opening and of the body.
#[derive(Clone, Copy)]
struct Opening {
    kind: Kind,
    size: u64,
    body: u64,
}

impl Opening {
    fn item_size(&self) -> u64 {
        self.size + self.body
    }

    /// Read the opening of an item at the start of `data`. The text says why there is none.
    fn read(data: &[u8]) -> Result<Opening, String> {
        let Some((kind, name, most)) =
            KINDS.iter().find(|(kind, ..)| data.starts_with(&kind.prefix()))
        else {
            return Err("expected an item of a bundle, found something else".into());
        };
        let prefix = kind.prefix();
        let body = length(&data[prefix.len()..])?;
        if body > *most {
            return Err(format!("{name}: expected at most {most} bytes, found {body}"));
        }
        let mut expected = prefix;
        put_head(&mut expected, BYTES, body);
        if !data.starts_with(&expected) {
            return Err(format!("{name}: its length is not canonical"));
        }
        Ok(Opening { kind: *kind, size: expected.len() as u64, body })
    }
}

/// The length that the head of a byte string says.
fn length(data: &[u8]) -> Result<u64, String> {
    let initial = data.first().copied().unwrap_or(0);
    let info = initial & 31;
    if initial & 0xE0 != BYTES || info > 27 {
        return Err("an item of a bundle holds something else than bytes".into());
    }
    if info < 24 {
        return Ok(info.into());
    }
    let Some(bytes) = data.get(1..1 + (1 << (info - 24))) else {
        return Err("the length of an item is cut short".into());
    };
    Ok(bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// The first item: which world the bundle holds.
pub struct Header {
    pub world: Hash,
    pub world_key: Vec<u8>,
    pub operators: Vec<Principal>,
    /// Whether the frames follow a snapshot: the file is an archive of pruned records.
    pub is_archive: bool,
}

impl Header {
    fn read(data: &[u8]) -> Result<Header, String> {
        let value = decode_record(data, Bounds { bytes: MIB as usize, ..RECORD })
            .map_err(|problem| format!("the header is not canonical CBOR: {problem}"))?;
        match value.get("format") {
            Some(Value::Int(FORMAT)) => Header::of(&value).ok_or_else(|| {
                "the header is not {format, world, created, world_key, operators, executors}".into()
            }),
            Some(Value::Int(number)) => Err(format!(
                "the bundle's format: expected {FORMAT}, found {number} (a newer release wrote it)"
            )),
            _ => Err("the header has no format".into()),
        }
    }

    fn of(value: &Value) -> Option<Header> {
        let Value::Map(fields) = value else { return None };
        let is_archive = value.get("after").is_some();
        if fields.len() != 6 + usize::from(is_archive) {
            return None;
        }
        value.get("created")?.as_text()?;
        let Value::Map(executors) = value.get("executors")? else { return None };
        let is_named_key = |(name, key): &(Key, Value)| {
            matches!(name, Key::Text(_)) && key.as_bytes().is_some_and(|key| key.len() == KEY_BYTES)
        };
        if !executors.iter().all(is_named_key) {
            return None;
        }
        let key = |value: &Value| Some(value.as_bytes()?.to_vec()).filter(|k| k.len() == KEY_BYTES);
        let operators = value.get("operators")?.as_list()?.iter().map(|row| {
            let [name, operator_key] = row.as_list()? else { return None };
            Some(Principal { name: name.as_text()?.into(), key: key(operator_key)?.into() })
        });
        Some(Header {
            world: value.get("world")?.as_bytes()?.try_into().ok()?,
            world_key: key(value.get("world_key")?)?,
            operators: operators.collect::<Option<_>>()?,
            is_archive,
        })
    }
}

/// A value that the journal refers to and whose bytes are gone, with the bytes of record `seq`,
/// which erased it and may come after the bundle's end.
pub struct ErasedValue {
    pub value: Hash,
    pub seq: u64,
    pub record: Vec<u8>,
}

impl ErasedValue {
    fn read(data: &[u8]) -> Result<ErasedValue, String> {
        let value = decode_record(data, Bounds { bytes: 64 * KIB as usize, ..RECORD })
            .map_err(|problem| format!("an erased value is not canonical CBOR: {problem}"))?;
        let read = || {
            let [value, seq, record] = value.as_list()? else { return None };
            Some(ErasedValue {
                value: value.as_bytes()?.try_into().ok()?,
                seq: seq.as_nat().filter(|seq| *seq > 0)?,
                record: record.as_bytes()?.to_vec(),
            })
        };
        let erased = read().ok_or_else(|| {
            "an erased value is not [hash, record's sequence, record]".to_string()
        })?;
        match from_bytes(&erased.record).map_err(damage_text)? {
            Record::Fork(fork) if fork.seq == erased.seq && fork.erased.contains(&erased.value) => {
                Ok(erased)
            }
            _ => erased.command().map(|_| erased),
        }
    }

    /// The command that erased it; its signature is not checked.
    pub fn command(&self) -> Result<Control, String> {
        match from_bytes(&self.record).map_err(damage_text)? {
            Record::Control(control)
                if control.action == ControlAction::Erase
                    && control.value == Some(self.value)
                    && control.seq == self.seq =>
            {
                Ok(control)
            }
            _ => Err(format!("record {} is said to erase a value, and does not", self.seq)),
        }
    }
}

/// The positions of head and index, and the hash of every byte before the last item.
struct End {
    head_at: u64,
    index_at: u64,
    digest: Hash,
}

impl End {
    fn read(data: &[u8]) -> Result<End, String> {
        let Some((positions, digest)) =
            data.split_at_checked(16).filter(|(_, digest)| digest.len() == HASH_BYTES)
        else {
            let expected = END_BODY_BYTES;
            return Err(format!("the last item: expected {expected} bytes, found {}", data.len()));
        };
        let number = |at: usize| u64::from_be_bytes(positions[at..at + 8].try_into().expect("8"));
        let digest = digest.try_into().expect("32 bytes");
        Ok(End { head_at: number(0), index_at: number(8), digest })
    }
}

/// A bundle that was opened. `check` reads all of it.
pub struct Bundle {
    pub header: Header,
    /// How many values there are, erased ones counted.
    pub values: u64,
    source: Source,
    end: End,
    items_at: u64,
    rows_at: u64,
}

/// An item, and its position.
struct Item {
    at: u64,
    opening: Opening,
}

impl Bundle {
    /// Open a bundle and read its first and last items.
    pub fn open(path: &str) -> Result<Bundle, Problem> {
        let unreadable = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => Problem::Usage(format!(
                "{path}: there is no such file (make a bundle of a world: aos export FILE)"
            )),
            _ => Problem::Unavailable(format!("{path}: the file cannot be read: {error}")),
        };
        // A pipe would be waited for.
        let metadata = std::fs::metadata(Path::new(path)).map_err(unreadable)?;
        if metadata.is_dir() {
            let text = format!("{path}: expected a bundle, found a folder (aos export makes one)");
            return Err(Problem::Usage(text));
        }
        if !metadata.is_file() {
            let text = format!("{path}: expected a bundle, found no regular file");
            return Err(Problem::Usage(text));
        }
        let file = File::open(path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        let source = Source { path: path.to_string(), file: RefCell::new(file), size };
        source.check_magic()?;
        let last = source.last()?;
        let end = source.body(&last, End::read)?;
        let index = source.expect(end.index_at, Kind::Index)?;
        let is_last = end.index_at + index.opening.item_size() + END_BYTES == size;
        if !is_last || index.opening.body % ROW_BYTES != 0 {
            return Err(source.damage(end.index_at, "the index is not where its end is"));
        }
        let first = source.expect(0, Kind::Header)?;
        Ok(Bundle {
            header: source.body(&first, Header::read)?,
            values: index.opening.body / ROW_BYTES,
            items_at: first.opening.item_size(),
            rows_at: end.index_at + index.opening.size,
            source,
            end,
        })
    }

    /// Read the whole file: each item is valid and in its place, the index has the position of each
    /// value and no other rows, each value has its hash, and the closing hash is valid. Returns the
    /// values that are listed as erased.
    pub fn check(&self) -> Result<Vec<ErasedValue>, Problem> {
        self.head()?;
        let mut erased = Vec::new();
        let mut digest = blake3::Hasher::new();
        let mut values = 0;
        let mut at = 0;
        while let Some(item) = self.next(at)? {
            let content = self.hash_item(&item, &mut digest)?;
            let value = match item.opening.kind {
                Kind::Blob => Some(content),
                Kind::Erased => {
                    erased.push(self.source.body(&item, ErasedValue::read)?);
                    erased.last().map(|erased| erased.value)
                }
                _ => None,
            };
            if let Some(value) = value {
                values += 1;
                if self.find(&value)? != Some(item.at) {
                    let hash = hash_text(&value);
                    let problem = "is not in the index: the value or the index was altered";
                    return Err(self.source.damage(item.at, &format!("{hash} {problem}")));
                }
            }
            at = item.at + item.opening.item_size();
        }
        let actual: Hash = *digest.finalize().as_bytes();
        if actual != self.end.digest {
            let sentence = Sentence {
                problem: "the file was altered",
                location: Some(&self.source.path),
                expected: Some(&format!("closing hash {}", &hex(&self.end.digest)[..16])),
                actual: Some(&hex(&actual)[..16]),
                hint: Some(AGAIN),
            };
            return Err(Problem::Damage(sentence.text()));
        }
        if values != self.values {
            let problem = format!("the index has {} values, and the file {values}", self.values);
            return Err(self.source.damage(self.end.index_at, &problem));
        }
        self.check_order()?;
        Ok(erased)
    }

    fn check_order(&self) -> Result<(), Problem> {
        let mut last: Option<Hash> = None;
        let mut number = 0;
        while number < self.values {
            let count = ROWS_AT_ONCE.min(self.values - number);
            let rows = self.source.read(self.rows_at + number * ROW_BYTES, count * ROW_BYTES)?;
            for row in rows.chunks_exact(ROW_BYTES as usize) {
                let (value, _) = read_row(row);
                if last.is_some_and(|last| value <= last) {
                    let problem = "the rows of the index do not ascend";
                    return Err(self.source.damage(self.end.index_at, problem));
                }
                last = Some(value);
            }
            number += count;
        }
        Ok(())
    }

    /// Give each frame to `take`, in their order in the file. Whether they follow one another is
    /// for `take` to check.
    pub fn frames(
        &self,
        mut take: impl FnMut(Frame) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut at = self.items_at;
        while let Some(item) = self.next(at)? {
            if item.opening.kind == Kind::Frame {
                take(self.source.body(&item, |data| read_frame(data).map_err(damage_text))?)?;
            }
            at = item.at + item.opening.item_size();
        }
        Ok(())
    }

    /// The signed head; its signature is not checked.
    pub fn head(&self) -> Result<Head, Problem> {
        let item = self.source.expect(self.end.head_at, Kind::Head)?;
        self.source.body(&item, |data| Head::from_bytes(data).map_err(damage_text))
    }

    /// Whether the bytes with this content hash are here.
    pub fn has_blob(&self, hash: &Hash) -> Result<bool, Problem> {
        match self.find(hash)? {
            Some(at) => Ok(self.source.item(at)?.opening.kind == Kind::Blob),
            None => Ok(false),
        }
    }

    /// The bytes with this content hash. Damage if they are erased, missing or altered.
    pub fn blob(&self, hash: &Hash) -> Result<Vec<u8>, Problem> {
        let name = hash_text(hash);
        let Some(at) = self.find(hash)? else {
            let text = format!("{}: blob {name} is missing ({AGAIN})", self.source.path);
            return Err(Problem::Damage(text));
        };
        let item = self.source.item(at)?;
        if item.opening.kind == Kind::Erased {
            let seq = self.source.body(&item, ErasedValue::read)?.seq;
            return Err(Problem::Erased(format!("the value {name} was erased by record {seq}")));
        }
        let item = self.source.expect(at, Kind::Blob)?;
        let data = self.source.body(&item, |data| Ok(data.to_vec()))?;
        match content_hash(&data) == *hash {
            true => Ok(data),
            false => Err(self.source.damage(at, &format!("blob {name} is altered"))),
        }
    }

    // Items

    /// The item at `at`; None behind the index.
    fn next(&self, at: u64) -> Result<Option<Item>, Problem> {
        let end = &self.end;
        if at > end.index_at {
            return Ok(None);
        }
        let item = self.source.item(at)?;
        let single = [
            (Kind::Header, 0),
            (Kind::Head, end.head_at),
            (Kind::Index, end.index_at),
            (Kind::End, self.source.size - END_BYTES),
        ];
        let name = item.opening.kind.name();
        if single.iter().any(|&(kind, place)| (kind == item.opening.kind) != (place == at)) {
            let problem = format!("{name} is in a place where it does not belong");
            return Err(self.source.damage(at, &problem));
        }
        if end.head_at < at && at < end.index_at {
            return Err(self.source.damage(at, &format!("{name} is behind the head")));
        }
        Ok(Some(item))
    }

    /// Add an item to `digest`; return the content hash of its body.
    fn hash_item(&self, item: &Item, digest: &mut blake3::Hasher) -> Result<Hash, Problem> {
        let mut content = blake3::Hasher::new();
        digest.update(&self.source.read(item.at, item.opening.size)?);
        let (mut at, end) = (item.at + item.opening.size, item.at + item.opening.item_size());
        while at < end {
            let piece = self.source.read(at, PIECE_BYTES.min(end - at))?;
            digest.update(&piece);
            if item.opening.kind == Kind::Blob {
                content.update(&piece);
            }
            at += piece.len() as u64;
        }
        Ok(*content.finalize().as_bytes())
    }

    // The index

    fn row(&self, number: u64) -> Result<(Hash, u64), Problem> {
        let row = self.source.read(self.rows_at + number * ROW_BYTES, ROW_BYTES)?;
        Ok(read_row(&row))
    }

    /// The position of a value's item; None if the index does not have it.
    fn find(&self, value: &Hash) -> Result<Option<u64>, Problem> {
        let (mut low, mut high) = (0, self.values);
        while low < high {
            let middle = low + (high - low) / 2;
            let (row_value, at) = self.row(middle)?;
            match row_value.cmp(value) {
                std::cmp::Ordering::Equal => return Ok(Some(at)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }
}

fn read_row(row: &[u8]) -> (Hash, u64) {
    let (value, at) = row.split_at(HASH_BYTES);
    let at = u64::from_be_bytes(at.try_into().expect("8 bytes"));
    (value.try_into().expect("32 bytes"), at)
}

/// The file of a bundle.
struct Source {
    path: String,
    file: RefCell<File>,
    size: u64,
}

impl Source {
    fn check_magic(&self) -> Result<(), Problem> {
        let magic = Kind::Header.prefix();
        if self.size < magic.len() as u64 || self.read(0, magic.len() as u64)? != magic {
            let text =
                format!("{}: this is no bundle (make one of a world: aos export FILE)", self.path);
            return Err(Problem::Usage(text));
        }
        Ok(())
    }

    /// The last item, which a file that was cut short does not have.
    fn last(&self) -> Result<Item, Problem> {
        let at = self.size.saturating_sub(END_BYTES);
        match Opening::read(&self.read(at, OPENING_BYTES_MAX.min(self.size - at))?) {
            Ok(opening) if opening.kind == Kind::End && at + opening.item_size() == self.size => {
                Ok(Item { at, opening })
            }
            _ => {
                let expected = format!(
                    "its closing hash in the last {END_BYTES} of its {} bytes",
                    thousands(self.size)
                );
                let sentence = Sentence {
                    problem: "the bundle is cut short, or something was added to it",
                    location: Some(&self.path),
                    expected: Some(&expected),
                    hint: Some(AGAIN),
                    actual: None,
                };
                Err(Problem::Damage(sentence.text()))
            }
        }
    }

    fn item(&self, at: u64) -> Result<Item, Problem> {
        if at >= self.size {
            return Err(self.damage(at, "expected an item, and the file ends before"));
        }
        let opening = Opening::read(&self.read(at, OPENING_BYTES_MAX.min(self.size - at))?)
            .map_err(|problem| self.damage(at, &problem))?;
        if opening.item_size() > self.size - at {
            let (name, body, size) = (opening.kind.name(), opening.body, self.size);
            let problem = format!("{name} of {body} bytes goes beyond the file's end at {size}");
            return Err(self.damage(at, &problem));
        }
        Ok(Item { at, opening })
    }

    fn expect(&self, at: u64, kind: Kind) -> Result<Item, Problem> {
        let item = self.item(at)?;
        if item.opening.kind != kind {
            let problem = format!("expected {}, found {}", kind.name(), item.opening.kind.name());
            return Err(self.damage(at, &problem));
        }
        Ok(item)
    }

    fn body<T>(
        &self,
        item: &Item,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, Problem> {
        read(&self.read(item.at + item.opening.size, item.opening.body)?)
            .map_err(|problem| self.damage(item.at, &problem))
    }

    /// Exactly `size` bytes, which were there when the file was opened.
    fn read(&self, at: u64, size: u64) -> Result<Vec<u8>, Problem> {
        let mut data = vec![0; size as usize];
        let mut file = self.file.borrow_mut();
        let done = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut data));
        match done {
            Ok(()) => Ok(data),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.damage(at, "the file became shorter while it was read"))
            }
            Err(error) => Err(Problem::Unavailable(format!(
                "{}: the file cannot be read: {error}",
                self.path
            ))),
        }
    }

    fn damage(&self, at: u64, problem: &str) -> Problem {
        let sentence = Sentence {
            problem,
            location: Some(&format!("{}: byte {}", self.path, thousands(at))),
            hint: Some(AGAIN),
            ..Sentence::default()
        };
        Problem::Damage(sentence.text())
    }
}
