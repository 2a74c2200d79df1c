//! Make frames of records, and check that frames form a chain (spec/journal.md, J-20 to J-39;
//! `kernel/aos/core/journal/frame.py`).

use std::cell::OnceCell;
use std::ops::Range;

use blake3::hazmat::{hash_derive_key_context, ContextKey};

use crate::journal::identity::world_id;
use crate::journal::merkle::{self, Tree};
use crate::journal::record_codec::{from_bytes, Quick};
use crate::journal::records::Record;
use crate::values::cbor::{
    decode_record, put_array, put_bytes, put_map, put_nat, put_text, Bounds, Key, Value, RECORD,
    RECORD_ITEMS_MAX,
};
use crate::values::digests::{content_hash, digest, hex, Hash, HASH_BYTES};
use crate::values::errors::{Failure, Outcome};
use crate::values::hash_lanes::{content_hashes, derived, LANES};

pub const VERSION: u64 = 1;
/// `prev` of the first frame.
pub const NO_FRAME: Hash = [0; HASH_BYTES];
/// Largest frame that a reader accepts. A host seals at 256 KiB, but the last record may be long.
pub const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;
pub const SALT_BYTES: usize = 32;
pub const SIGNATURE_BYTES: usize = 64;

pub type Salt = [u8; SALT_BYTES];

/// The hashed part of a frame: its place in the chain, the root of its records and the root of all
/// frames so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub world: Hash,
    pub first: u64,
    pub last: u64,
    pub prev: Hash,
    pub root: Hash,
    pub log_root: Hash,
}

impl Header {
    fn put(&self, out: &mut Vec<u8>) {
        put_map(out, 7);
        put_text(out, "last");
        put_nat(out, self.last);
        put_text(out, "prev");
        put_bytes(out, &self.prev);
        put_text(out, "root");
        put_bytes(out, &self.root);
        put_text(out, "first");
        put_nat(out, self.first);
        put_text(out, "world");
        put_bytes(out, &self.world);
        put_text(out, "version");
        put_nat(out, VERSION);
        put_text(out, "log_root");
        put_bytes(out, &self.log_root);
    }

    pub fn hash(&self) -> Hash {
        digest("aos/frame/1", 1, |out| self.put(out))
    }
}

/// The records of one round, with the header that fixes them. Records are owned, or slices of the
/// stored bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<R = Vec<u8>> {
    pub header: Header,
    pub hash: Hash,
    pub salt: Salt,
    pub records: Vec<R>,
}

impl<R: AsRef<[u8]>> Frame<R> {
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_with_places().0
    }

    /// The bytes of the frame, and where its records are in them.
    pub fn to_bytes_with_places(&self) -> (Vec<u8>, Vec<Range<usize>>) {
        let size: usize = self.records.iter().map(|record| record.as_ref().len() + 5).sum();
        let mut out = Vec::with_capacity(size + 300);
        put_map(&mut out, 3);
        put_text(&mut out, "salt");
        put_bytes(&mut out, &self.salt);
        put_text(&mut out, "header");
        self.header.put(&mut out);
        put_text(&mut out, "records");
        put_array(&mut out, self.records.len());
        let mut places = Vec::with_capacity(self.records.len());
        for record in &self.records {
            put_bytes(&mut out, record.as_ref());
            places.push(out.len() - record.as_ref().len()..out.len());
        }
        (out, places)
    }
}

/// The end of a chain, which the next frame follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    pub world: Hash,
    pub seq: u64,
    pub frame: Hash,
    pub log: Tree,
}

impl Tip {
    /// Before the first frame of a world.
    pub fn of(world: Hash) -> Tip {
        Tip { world, seq: 0, frame: NO_FRAME, log: Tree::default() }
    }
}

/// The leaf of the record with sequence `seq` in the frame that has this salt.
pub fn leaf(salt: &Salt, seq: u64, record: &[u8]) -> Hash {
    let mut preimage = Vec::with_capacity(record.len() + 64);
    put_leaf(&mut preimage, &record_salt(salt, seq), record);
    content_hash(&preimage)
}

/// The leaves of the records of a frame, the first of which has sequence `first`.
fn leaves<R: AsRef<[u8]>>(salt: &Salt, first: u64, records: &[R]) -> Vec<Hash> {
    let seq_of = |index: usize| first.wrapping_add(index as u64);
    let mut leaves = Vec::with_capacity(records.len());
    let mut preimages: [Vec<u8>; LANES] = Default::default();
    let fours = records.chunks_exact(LANES);
    let rest = fours.remainder();
    for four in fours {
        let seed = |lane| [&salt[..], &seq_of(leaves.len() + lane).to_be_bytes()].concat();
        let seeds: [Vec<u8>; LANES] = std::array::from_fn(seed);
        let salts = derived(&salt_context(), seeds.each_ref().map(Vec::as_slice));
        for ((preimage, salt), record) in preimages.iter_mut().zip(&salts).zip(four) {
            preimage.clear();
            put_leaf(preimage, salt, record.as_ref());
        }
        leaves.extend(content_hashes(preimages.each_ref().map(Vec::as_slice)));
    }
    for record in rest {
        leaves.push(leaf(salt, seq_of(leaves.len()), record.as_ref()));
    }
    leaves
}

fn put_leaf(out: &mut Vec<u8>, record_salt: &Salt, record: &[u8]) {
    put_array(out, 3);
    put_text(out, "aos/leaf/1");
    put_bytes(out, record_salt);
    put_bytes(out, record);
}

pub fn record_salt(salt: &Salt, seq: u64) -> Salt {
    use blake3::hazmat::HasherExt;
    let mut hasher = blake3::Hasher::new_from_context_key(&salt_context());
    hasher.update(salt);
    hasher.update(&seq.to_be_bytes());
    *hasher.finalize().as_bytes()
}

fn salt_context() -> ContextKey {
    thread_local! {
        // Hashing the context costs as much as deriving from it.
        static CONTEXT: OnceCell<ContextKey> = const { OnceCell::new() };
    }
    CONTEXT.with(|key| *key.get_or_init(|| hash_derive_key_context("aos/record-salt/1")))
}

pub fn log_leaf(root: &Hash) -> Hash {
    digest("aos/log-leaf/1", 1, |out| put_bytes(out, root))
}

/// Make the frame that follows `tip` out of at least one record.
pub fn seal(tip: &Tip, records: Vec<Vec<u8>>, salt: Salt) -> (Frame, Tip) {
    let (header, next_tip) = header_of(tip, &records, &salt);
    let frame = Frame { header, hash: next_tip.frame, salt, records };
    (frame, next_tip)
}

fn header_of<R: AsRef<[u8]>>(tip: &Tip, records: &[R], salt: &Salt) -> (Header, Tip) {
    assert!(!records.is_empty());
    let first = tip.seq.wrapping_add(1);
    let root = merkle::root(leaves(salt, first, records));
    let mut log = tip.log.clone();
    log.append(log_leaf(&root));
    let header = Header {
        world: tip.world,
        first,
        last: tip.seq.wrapping_add(records.len() as u64),
        prev: tip.frame,
        root,
        log_root: log.root(),
    };
    let next_tip = Tip { world: tip.world, seq: header.last, frame: header.hash(), log };
    (header, next_tip)
}

fn damage<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Failure::Damage(text.into()))
}

/// Read a stored frame and check its shape; `follow` checks its contents. Damage: the bytes are not
/// a frame.
pub fn read_frame(data: &[u8]) -> Outcome<Frame> {
    let value = decode_record(data, Bounds { bytes: FRAME_BYTES_MAX, ..RECORD })
        .or_else(|e| damage(format!("a frame is not canonical CBOR: {e}")))?;
    let Some(Parts { version, world, first, last, prev, root, log_root, records, salt }) =
        parts(value)
    else {
        return damage("a frame is not {header, records, salt}");
    };
    let (Some(version), Some(first), Some(last)) =
        (version.as_nat(), first.as_nat(), last.as_nat())
    else {
        return damage("a frame's header holds a version or sequence that is not a natural number");
    };
    if version != VERSION {
        return damage(format!(
            "frame version: expected {VERSION}, found {version} (a newer release wrote it)"
        ));
    }
    let bytes = |record| match record {
        Value::Bytes(data) => Some(data),
        _ => None,
    };
    let records: Option<Vec<Vec<u8>>> = records.into_iter().map(bytes).collect();
    let (Some(records), Ok(salt)) = (records, Salt::try_from(salt)) else {
        return damage("a frame's records are not byte strings, or its salt is not 32 bytes");
    };
    let (Ok(world), Ok(prev), Ok(root), Ok(log_root)) =
        (world.try_into(), prev.try_into(), root.try_into(), log_root.try_into())
    else {
        return damage("a frame's header holds a hash that is not 32 bytes");
    };
    let expected = last as i128 - first as i128 + 1;
    if first < 1 || expected != records.len() as i128 || records.is_empty() {
        return damage(format!(
            "frame {first}: expected {expected} records, found {}",
            records.len()
        ));
    }
    let header = Header { world, first, last, prev, root, log_root };
    Ok(Frame { hash: header.hash(), header, salt, records })
}

/// As `read_frame`, without a copy of the records; None if the bytes are no frame, which
/// `read_frame` then explains.
pub fn read_frame_in_place(data: &[u8]) -> Option<Frame<&[u8]>> {
    if data.len() > FRAME_BYTES_MAX {
        return None;
    }
    let mut from = Quick { data, at: 0 };
    from.expect(b"\xa3\x64salt")?;
    let salt = from.array()?;
    from.expect(b"\x66header\xa7\x64last")?;
    let last = from.argument(0x00)?;
    from.expect(b"\x64prev")?;
    let prev = from.array()?;
    from.expect(b"\x64root")?;
    let root = from.array()?;
    from.expect(b"\x65first")?;
    let first = from.argument(0x00)?;
    from.expect(b"\x65world")?;
    let world = from.array()?;
    from.expect(b"\x67version")?;
    let version = from.argument(0x00)?;
    from.expect(b"\x68log_root")?;
    let log_root = from.array()?;
    from.expect(b"\x67records")?;
    let count = from.argument(0x80)?;
    // The gate bounds the number of items; a frame with so many is rare.
    if version != VERSION || first < 1 || count == 0 || count > RECORD_ITEMS_MAX as u64 / 2 {
        return None;
    }
    if last as i128 - first as i128 + 1 != count as i128 {
        return None;
    }
    let mut records = Vec::with_capacity(count.min(4096) as usize);
    for _ in 0..count {
        records.push(from.bytes()?);
    }
    let header = Header { world, first, last, prev, root, log_root };
    (from.at == data.len()).then(|| Frame { hash: header.hash(), header, salt, records })
}

/// The parts of a frame whose map has the right fields, with the right containers.
struct Parts {
    version: Value,
    world: Vec<u8>,
    first: Value,
    last: Value,
    prev: Vec<u8>,
    root: Vec<u8>,
    log_root: Vec<u8>,
    records: Vec<Value>,
    salt: Vec<u8>,
}

fn parts(frame: Value) -> Option<Parts> {
    // The gate has checked that the fields are in canonical order: by length, then by bytes.
    let [salt, header, records] = fields(frame, ["salt", "header", "records"])?;
    let names = ["last", "prev", "root", "first", "world", "version", "log_root"];
    let [last, prev, root, first, world, version, log_root] = fields(header, names)?;
    let bytes = |value| match value {
        Value::Bytes(data) => Some(data),
        _ => None,
    };
    let Value::List(records) = records else { return None };
    Some(Parts {
        version,
        world: bytes(world)?,
        first,
        last,
        prev: bytes(prev)?,
        root: bytes(root)?,
        log_root: bytes(log_root)?,
        records,
        salt: bytes(salt)?,
    })
}

/// The values of a map with exactly these keys, in the order of its bytes.
fn fields<const N: usize>(value: Value, names: [&str; N]) -> Option<[Value; N]> {
    let Value::Map(entries) = value else { return None };
    let entries: [(Key, Value); N] = entries.try_into().ok()?;
    let is_named =
        |(entry, name): (&(Key, Value), &str)| matches!(&entry.0, Key::Text(text) if text == name);
    if !entries.iter().zip(names).all(is_named) {
        return None;
    }
    Some(entries.map(|(_, value)| value))
}

/// The world that a frame with `record` as its first record belongs to: that of `tip`; or, if the
/// record forks this world at this place, the fork's own (K-110).
pub fn forked(tip: &Tip, record: &Record) -> Hash {
    match record {
        Record::Fork(fork)
            if (fork.parent, fork.at, fork.frame) == (tip.world, tip.seq, tip.frame) =>
        {
            world_id(&fork.nonce, &fork.world_key)
        }
        _ => tip.world,
    }
}

/// As `forked`, for a frame; reads its first record only if it names another world.
fn entered<R: AsRef<[u8]>>(tip: &Tip, frame: &Frame<R>) -> Hash {
    if frame.header.world == tip.world {
        return tip.world;
    }
    match from_bytes(frame.records[0].as_ref()) {
        Ok(record) => forked(tip, &record),
        Err(_) => tip.world, // and so it is another world's
    }
}

/// Check that `frame` follows `tip` and holds the records that its hash commits to. Damage: it does
/// not; the text names the frame and the first part that differs.
pub fn follow<R: AsRef<[u8]>>(tip: &Tip, frame: &Frame<R>) -> Outcome<Tip> {
    let world = entered(tip, frame);
    let (mut expected, mut next_tip) = header_of(tip, &frame.records, &frame.salt);
    if world != tip.world {
        expected.world = world;
        next_tip.world = world;
        next_tip.frame = expected.hash();
    }
    let header = &frame.header;
    let subject = format!("frame {}", expected.first);
    let short = |hash: &Hash| hex(&hash[..8]);
    if header.world != expected.world {
        return damage(format!(
            "{subject} is another world's: expected world {}, found {}",
            short(&expected.world),
            short(&header.world)
        ));
    }
    if header.first != expected.first {
        return damage(format!(
            "{subject} is missing: the next stored frame begins at record {}",
            header.first
        ));
    }
    if header.prev != expected.prev {
        return damage(format!(
            "{subject} does not follow the frame before it: expected previous hash {}, found {}",
            short(&expected.prev),
            short(&header.prev)
        ));
    }
    if header.root != expected.root {
        return damage(format!(
            "{subject} (records {} to {}) is altered: expected root {}, its records give {}",
            header.first,
            header.last,
            short(&header.root),
            short(&expected.root)
        ));
    }
    if header.log_root != expected.log_root {
        return damage(format!(
            "{subject} is altered: its log root is not the tree over the frames so far"
        ));
    }
    Ok(next_tip)
}

/// The journal's end, signed by the world's key; stored with each commit group. The core makes it
/// and the host signs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub world: Hash,
    pub seq: u64,
    pub frame: Hash,
    pub log_root: Hash,
    pub frames: u64,
    pub signature: Vec<u8>,
}

impl Head {
    pub fn of(tip: &Tip) -> Head {
        Head {
            world: tip.world,
            seq: tip.seq,
            frame: tip.frame,
            log_root: tip.log.root(),
            frames: tip.log.size,
            signature: Vec::new(),
        }
    }

    /// The bytes that the world's key signs.
    pub fn message(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        put_array(&mut out, 6);
        put_text(&mut out, "aos/head/1");
        self.put_parts(&mut out);
        out
    }

    fn put_parts(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.world);
        put_nat(out, self.seq);
        put_bytes(out, &self.frame);
        put_bytes(out, &self.log_root);
        put_nat(out, self.frames);
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(200);
        put_array(&mut out, 6);
        self.put_parts(&mut out);
        put_bytes(&mut out, &self.signature);
        out
    }

    /// Read a stored head. Damage: the bytes are not a head.
    pub fn from_bytes(data: &[u8]) -> Outcome<Head> {
        let value = decode_record(data, Bounds { bytes: 4096, ..RECORD })
            .or_else(|e| damage(format!("the head is not canonical CBOR: {e}")))?;
        head_of(&value).map_or_else(
            || damage("the head is not [world, seq, frame, log_root, frames, signature]"),
            Ok,
        )
    }
}

fn head_of(value: &Value) -> Option<Head> {
    let [world, seq, frame, log_root, frames, signature] = value.as_list()? else { return None };
    let hash = |value: &Value| value.as_bytes()?.try_into().ok();
    let signature = signature.as_bytes().filter(|data| data.len() == SIGNATURE_BYTES)?;
    Some(Head {
        world: hash(world)?,
        seq: seq.as_nat()?,
        frame: hash(frame)?,
        log_root: hash(log_root)?,
        frames: frames.as_nat()?,
        signature: signature.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_in_place_as_it_is_read_with_care() {
        let records = vec![vec![1; 10], vec![2; 300], vec![]];
        let (frame, tip) = seal(&Tip::of([7; 32]), records, [9; 32]);
        let data = frame.to_bytes();
        let in_place = read_frame_in_place(&data).expect("a frame");
        assert_eq!(read_frame(&data), Ok(frame.clone()));
        assert_eq!((&in_place.header, in_place.hash), (&frame.header, frame.hash));
        assert_eq!(in_place.to_bytes(), data);
        assert_eq!(follow(&Tip::of([7; 32]), &in_place), Ok(tip));
        for at in 0..data.len() {
            let mut altered = data.clone();
            altered[at] ^= 1 << (at % 8);
            if let Some(other) = read_frame_in_place(&altered) {
                assert_eq!(read_frame(&altered).map(|frame| frame.hash), Ok(other.hash));
            } else {
                assert!(read_frame(&altered).is_err());
            }
            assert!(read_frame_in_place(&data[..at]).is_none());
        }
    }
}
