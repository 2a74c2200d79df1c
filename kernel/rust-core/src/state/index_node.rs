//! The bytes of one node of a cell index, written and read back (`core/state/index_node.py`;
//! spec/state.md, CI-6 to CI-10).
//!
//! The layout depends only on the number of entries or children, so a reader compares the bytes
//! with the layout: any other bytes are Damage. Only `entry_in` checks no more than it needs.

use std::fmt;

use crate::errors::Sentence;
use crate::values::cbor::{put_head, put_text, BYTES};
use crate::values::digests::{hash_text, hex, Hash, HASH_BYTES};
use crate::values::errors::{Failure, Outcome};

pub const LEAF_ENTRIES_MAX: u64 = 64;
pub const FANOUT: usize = 16;
/// Nibbles above the lowest interior node: only 16 key hashes can share 63 of their 64 nibbles.
pub const INTERIOR_DEPTH_MAX: usize = 62;
/// Keeps a leaf below 2^27 bytes, and the offsets in its ends far below 2^32.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

const END_BYTES: usize = 4;
const COUNT_BYTES: usize = 8;

/// A written part of an index: the hash of its top node, and its number of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtree {
    pub hash: Hash,
    pub size: u64,
}

/// The contents of a leaf: key hashes in ascending order, and the entry of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    pub keys: Vec<Hash>,
    pub entries: Vec<Vec<u8>>,
}

/// `size` is the sum of the sizes of the children; that of a forged node may exceed 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interior {
    pub size: u128,
    pub children: [Option<Subtree>; FANOUT],
}

/// The first hex digits of key hashes.
#[derive(Clone, Copy)]
pub struct Prefix {
    digits: Hash,
    count: usize,
}

impl Prefix {
    pub const NONE: Prefix = Prefix { digits: [0; HASH_BYTES], count: 0 };

    pub fn of(key_hash: &Hash, count: usize) -> Self {
        Prefix { digits: *key_hash, count }
    }

    pub fn followed_by(&self, digit: usize) -> Self {
        let mut digits = self.digits;
        let byte = &mut digits[self.count >> 1];
        *byte = match self.count & 1 {
            0 => (digit as u8) << 4 | *byte & 15,
            _ => *byte & 0xF0 | digit as u8,
        };
        Prefix { digits, count: self.count + 1 }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn begins(&self, key_hash: &Hash) -> bool {
        (0..self.count).all(|at| nibble(&self.digits, at) == nibble(key_hash, at))
    }

    /// Whether every key hash that begins so is less than `key_hash`.
    pub fn is_before(&self, key_hash: &Hash) -> bool {
        let differing = (0..self.count)
            .map(|at| (nibble(&self.digits, at), nibble(key_hash, at)))
            .find(|(own, other)| own != other);
        differing.is_some_and(|(own, other)| own < other)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.digits)[..self.count])
    }
}

/// Hex digit number `depth` of a key hash.
pub fn nibble(key_hash: &Hash, depth: usize) -> usize {
    let byte = key_hash[depth >> 1];
    (if depth & 1 == 1 { byte & 15 } else { byte >> 4 }) as usize
}

// Leaves

/// The offsets of the parts of a leaf with `count` entries.
struct LeafLayout {
    count: usize,
    opening: Vec<u8>,
    ends_head: Vec<u8>,
    keys_at: usize,
    ends_head_at: usize,
    ends_at: usize,
}

fn bytes_head(size: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(9);
    put_head(&mut head, BYTES, size as u64);
    head
}

fn opening(domain: &str, first_part_size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    out.push(0x84);
    put_text(&mut out, domain);
    put_head(&mut out, BYTES, first_part_size as u64);
    out
}

fn leaf_opening(count: usize) -> Vec<u8> {
    opening("aos/index-leaf/1", HASH_BYTES * count)
}

impl LeafLayout {
    fn new(count: usize) -> Self {
        let opening = leaf_opening(count);
        let ends_head = bytes_head(END_BYTES * count);
        let keys_at = opening.len();
        let ends_head_at = keys_at + HASH_BYTES * count;
        let ends_at = ends_head_at + ends_head.len();
        LeafLayout { count, opening, ends_head, keys_at, ends_head_at, ends_at }
    }

    /// Check all heads and the length; return the offset of the entries.
    fn entries_at(&self, data: &[u8], at: &Hash) -> Outcome<usize> {
        if !data.starts_with(&self.opening) {
            return refuse(&format!("a leaf of {} entries", self.count), &described(data), at);
        }
        let head_at = self.ends_at + END_BYTES * self.count;
        if data.get(self.ends_head_at..self.ends_at) != Some(&self.ends_head[..])
            || head_at > data.len()
        {
            let expected = format!("{} bytes of ends", END_BYTES * self.count);
            return refuse(&expected, "something else", at);
        }
        let size = self.end(data, self.count - 1);
        let entries_head = bytes_head(size);
        let entries_at = head_at + entries_head.len();
        if data.get(head_at..entries_at) != Some(&entries_head[..])
            || data.len() != entries_at + size
        {
            let expected = format!("{size} bytes of entries, and the end");
            return refuse(&expected, "something else", at);
        }
        Ok(entries_at)
    }

    fn key<'a>(&self, data: &'a [u8], index: usize) -> &'a Hash {
        let at = self.keys_at + HASH_BYTES * index;
        data[at..at + HASH_BYTES].try_into().expect("32 bytes")
    }

    fn end(&self, data: &[u8], index: usize) -> usize {
        let at = self.ends_at + END_BYTES * index;
        u32::from_be_bytes(data[at..at + END_BYTES].try_into().expect("4 bytes")) as usize
    }
}

pub fn leaf_bytes(leaf: &Leaf) -> Vec<u8> {
    let layout = LeafLayout::new(leaf.keys.len());
    let size: usize = leaf.entries.iter().map(Vec::len).sum();
    let mut out = Vec::with_capacity(layout.ends_at + END_BYTES * layout.count + 9 + size);
    out.extend_from_slice(&layout.opening);
    for key in &leaf.keys {
        out.extend_from_slice(key);
    }
    out.extend_from_slice(&layout.ends_head);
    let mut end = 0u32;
    for entry in &leaf.entries {
        end += entry.len() as u32;
        out.extend_from_slice(&end.to_be_bytes());
    }
    put_head(&mut out, BYTES, size as u64);
    for entry in &leaf.entries {
        out.extend_from_slice(entry);
    }
    out
}

/// The number of entries of a leaf, read from its first bytes; None if it is not a leaf.
pub fn leaf_count(data: &[u8]) -> Option<u64> {
    (1..=LEAF_ENTRIES_MAX).find(|&count| data.starts_with(&leaf_opening(count as usize)))
}

/// A leaf of `count` entries whose key hashes begin with `prefix`; `at` is the hash of the node,
/// for the error. Damage if these are not the bytes that `leaf_bytes` writes for such a leaf.
pub fn read_leaf(data: &[u8], count: u64, prefix: Prefix, at: &Hash) -> Outcome<Leaf> {
    let layout = LeafLayout::new(count as usize);
    let base = layout.entries_at(data, at)?;
    let keys: Vec<Hash> = (0..layout.count).map(|index| *layout.key(data, index)).collect();
    if !keys.windows(2).all(|pair| pair[0] < pair[1]) {
        return refuse("key hashes in ascending order, each once", "another order", at);
    }
    // The keys ascend, so checking the first and the last covers all between.
    for key in [&keys[0], &keys[keys.len() - 1]] {
        if !prefix.begins(key) {
            return refuse(&format!("key hashes that begin with {prefix}"), &hex(key), at);
        }
    }
    let ends: Vec<usize> = (0..layout.count).map(|index| layout.end(data, index)).collect();
    if !ends.windows(2).all(|pair| pair[0] <= pair[1]) {
        return refuse("ends in ascending order", "another order", at);
    }
    let mut start = 0;
    let mut entries = Vec::with_capacity(ends.len());
    for end in ends {
        entries.push(data[base + start..base + end].to_vec());
        start = end;
    }
    let longest = entries.iter().map(Vec::len).max().unwrap_or(0);
    if longest > ENTRY_BYTES_MAX {
        let expected = format!("entries of at most {ENTRY_BYTES_MAX} bytes");
        return refuse(&expected, &format!("one of {longest}"), at);
    }
    Ok(Leaf { keys, entries })
}

/// The entry of `key_hash` in a leaf of `count` entries. Checks no other entry. Damage if this is
/// no leaf of `count` entries, or if the ends of the entry are invalid.
pub fn entry_in<'a>(
    data: &'a [u8],
    count: u64,
    key_hash: &Hash,
    at: &Hash,
) -> Outcome<Option<&'a [u8]>> {
    let layout = LeafLayout::new(count as usize);
    let base = layout.entries_at(data, at)?;
    let Some(index) = (0..layout.count).find(|&index| layout.key(data, index) == key_hash) else {
        return Ok(None);
    };
    let start = if index == 0 { 0 } else { layout.end(data, index - 1) };
    let end = layout.end(data, index);
    if start > end || end > data.len() - base {
        return refuse("ends in ascending order", "another order", at);
    }
    Ok(Some(&data[base + start..base + end]))
}

// Interior nodes

const MAP_BYTES: usize = 2;

fn map_head() -> Vec<u8> {
    opening("aos/index-node/1", MAP_BYTES)
}

pub fn interior_bytes(interior: &Interior) -> Vec<u8> {
    let present: Vec<&Subtree> = interior.children.iter().flatten().collect();
    let child_bitmap = (0..FANOUT)
        .filter(|&nibble| interior.children[nibble].is_some())
        .fold(0u16, |map, nibble| map | 1 << nibble);
    let mut out = map_head();
    out.extend_from_slice(&child_bitmap.to_be_bytes());
    put_head(&mut out, BYTES, (HASH_BYTES * present.len()) as u64);
    for child in &present {
        out.extend_from_slice(&child.hash);
    }
    put_head(&mut out, BYTES, (COUNT_BYTES * present.len()) as u64);
    for child in &present {
        out.extend_from_slice(&child.size.to_be_bytes());
    }
    out
}

/// Read an interior node of any size; `at` is its hash, for the error. Damage if these are not the
/// bytes that `interior_bytes` writes for more than 64 entries.
pub fn read_interior(data: &[u8], at: &Hash) -> Outcome<Interior> {
    let map_head = map_head();
    if !data.starts_with(&map_head) {
        return refuse("an interior node", &described(data), at);
    }
    let map_end = (map_head.len() + MAP_BYTES).min(data.len());
    let child_bitmap = data[map_head.len()..map_end].iter().fold(0u16, |n, &b| n << 8 | b as u16);
    let present = child_bitmap.count_ones() as usize;
    let (hashes_head, counts_head) =
        (bytes_head(HASH_BYTES * present), bytes_head(COUNT_BYTES * present));
    let hashes_at = map_head.len() + MAP_BYTES + hashes_head.len();
    let counts_head_at = hashes_at + HASH_BYTES * present;
    let counts_at = counts_head_at + counts_head.len();
    if data.len() != counts_at + COUNT_BYTES * present
        || data[map_end..hashes_at] != hashes_head
        || data[counts_head_at..counts_at] != counts_head
    {
        let expected = format!("hashes and counts of {present} children");
        return refuse(&expected, "something else", at);
    }
    let mut children = [None; FANOUT];
    let hashes = data[hashes_at..counts_head_at].chunks_exact(HASH_BYTES);
    let counts = data[counts_at..].chunks_exact(COUNT_BYTES);
    let nibbles = (0..FANOUT).filter(|nibble| child_bitmap >> nibble & 1 == 1);
    for ((nibble, hash), count) in nibbles.zip(hashes).zip(counts) {
        children[nibble] = Some(Subtree {
            hash: hash.try_into().expect("32 bytes"),
            size: u64::from_be_bytes(count.try_into().expect("8 bytes")),
        });
    }
    let present = || children.iter().flatten();
    if present().any(|child| child.size == 0) {
        return refuse("children that have entries", "an empty one", at);
    }
    let size: u128 = present().map(|child| child.size as u128).sum();
    if size <= LEAF_ENTRIES_MAX as u128 {
        let expected = format!("more than {LEAF_ENTRIES_MAX} entries in all");
        return refuse(&expected, &size.to_string(), at);
    }
    Ok(Interior { size, children })
}

fn described(data: &[u8]) -> String {
    match leaf_count(data) {
        Some(count) => format!("a leaf of {count} entries"),
        None if data.starts_with(&map_head()) => "an interior node".to_string(),
        None => "bytes that begin as no node".to_string(),
    }
}

fn refuse<T>(expected: &str, actual: &str, at: &Hash) -> Outcome<T> {
    let sentence = Sentence {
        problem: "damaged",
        location: Some(&format!("index node {}", hash_text(at))),
        expected: Some(expected),
        actual: Some(actual),
        hint: None,
    };
    Err(Failure::Damage(sentence.text()))
}
