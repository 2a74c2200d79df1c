//! The canonical Merkle map of the cells at rest: key hash -> entry (`core/state/cell_index.py`;
//! spec/state.md, CI-1 to CI-15).
//!
//! A subtree holds the entries whose key hashes share their first nibbles. One with at most 64
//! entries is a leaf; one with more is an interior node with a child for each next nibble that
//! occurs. So the shape depends on the entries alone, not on earlier changes, and the root
//! identifies exactly these entries. Nodes are blobs: a changed index shares with its predecessor
//! every node that is not on the path to a change.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::collections::OrderedMap;
use crate::errors::Sentence;
use crate::journal::ports::BlobReader;
use crate::state::index_node::{
    entry_in, interior_bytes, leaf_bytes, leaf_count, nibble, read_interior, read_leaf, Interior,
    Leaf, Prefix, Subtree, ENTRY_BYTES_MAX, FANOUT, INTERIOR_DEPTH_MAX, LEAF_ENTRIES_MAX,
};
use crate::values::digests::{content_hash, hash_text, Hash};
use crate::values::errors::{Failure, Outcome};

/// Interior nodes that an index and its successors keep decoded, some 1 KB each.
const INTERIORS_KEPT_MAX: usize = 4096;

/// How many bytes of leaves each index keeps.
static LEAF_BYTES_KEPT: AtomicUsize = AtomicUsize::new(0);

/// Keep so many bytes of leaves of each index in memory, after they were read for one entry. A fold
/// reads one entry after another, and many are in the same leaf.
pub fn keep_leaves(bytes: usize) {
    LEAF_BYTES_KEPT.store(bytes, Ordering::Relaxed);
}

/// Takes the bytes of a blob and returns their content hash.
pub type Put<'a> = &'a mut dyn FnMut(Vec<u8>) -> Hash;

/// The nodes of an index and of all indexes that were made from it, by hash.
struct Nodes {
    read: BlobReader,
    /// Keyed by content, so it is valid for every version. Failed reads are not kept.
    interiors: RefCell<OrderedMap<Hash, Rc<Interior>>>,
    /// As these, the bytes of leaves.
    leaves: RefCell<KeptLeaves>,
}

/// The bytes of leaves, in the order in which they were read, and how many they are.
#[derive(Default)]
struct KeptLeaves {
    leaves: OrderedMap<Hash, Rc<[u8]>>,
    size: usize,
}

impl KeptLeaves {
    fn keep(&mut self, hash: Hash, data: &Rc<[u8]>, most: usize) {
        self.size += data.len();
        self.leaves.insert(hash, data.clone());
        while self.size > most {
            let Some((_, oldest)) = self.leaves.pop_first() else { return };
            self.size -= oldest.len();
        }
    }
}

impl Nodes {
    fn new(read: BlobReader) -> Rc<Nodes> {
        Rc::new(Nodes { read, interiors: RefCell::default(), leaves: RefCell::default() })
    }

    fn interior(&self, subtree: &Subtree, depth: usize) -> Outcome<Rc<Interior>> {
        let kept = self.interiors.borrow_mut().touch(&subtree.hash).cloned();
        let node = match kept {
            Some(node) => node,
            None => {
                let data = self.read.read(&subtree.hash)?;
                let node = Rc::new(read_interior(&data, &subtree.hash)?);
                let mut interiors = self.interiors.borrow_mut();
                if interiors.len() >= INTERIORS_KEPT_MAX {
                    interiors.pop_first();
                }
                interiors.insert(subtree.hash, node.clone());
                node
            }
        };
        check(&node, subtree, depth)?;
        Ok(node)
    }

    /// The entry of `key_hash` in a leaf, whose bytes are kept if `keep_leaves` says so.
    fn entry(&self, leaf: &Subtree, key_hash: &Hash) -> Outcome<Option<Vec<u8>>> {
        let most = LEAF_BYTES_KEPT.load(Ordering::Relaxed);
        let entry =
            |data: &[u8]| Ok(entry_in(data, leaf.size, key_hash, &leaf.hash)?.map(<[u8]>::to_vec));
        if most == 0 {
            return entry(&self.read.read(&leaf.hash)?);
        }
        if let Some(data) = self.leaves.borrow().leaves.get(&leaf.hash) {
            return entry(data);
        }
        let data: Rc<[u8]> = self.read.read(&leaf.hash)?.into();
        self.leaves.borrow_mut().keep(leaf.hash, &data, most);
        entry(&data)
    }

    fn leaf(&self, subtree: &Subtree, prefix: Prefix) -> Outcome<Leaf> {
        read_leaf(&self.read.read(&subtree.hash)?, subtree.size, prefix, &subtree.hash)
    }
}

/// The entries under `root`, `count` of them; no root means none. Two indexes are equal if they
/// have the same entries. Every method is Damage if a node that it reads is not canonical.
#[derive(Clone)]
pub struct CellIndex {
    root: Option<Hash>,
    count: u64,
    nodes: Rc<Nodes>,
}

impl PartialEq for CellIndex {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root && self.count == other.count
    }
}

impl fmt::Debug for CellIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CellIndex({:?}, {})", self.root.map(|root| hash_text(&root)), self.count)
    }
}

impl CellIndex {
    /// `read` returns the bytes of a node by its hash, and must have verified the hash.
    pub fn new(root: Option<Hash>, count: u64, read: BlobReader) -> Outcome<Self> {
        if root.is_none() != (count == 0) {
            let article = if root.is_some() { "a" } else { "no" };
            let sentence = Sentence {
                problem: "a cell index",
                expected: Some("a root when there are entries, and only then"),
                actual: Some(&format!("{article} root and {count} entries")),
                ..Sentence::default()
            };
            return Err(Failure::Damage(sentence.text()));
        }
        Ok(CellIndex { root, count, nodes: Nodes::new(read) })
    }

    pub fn empty(read: BlobReader) -> Self {
        CellIndex { root: None, count: 0, nodes: Nodes::new(read) }
    }

    pub fn root(&self) -> Option<&Hash> {
        self.root.as_ref()
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The same entries, from now on read with `read`.
    pub fn reading_with(&self, read: BlobReader) -> Self {
        CellIndex { root: self.root, count: self.count, nodes: Nodes::new(read) }
    }

    /// Drop the leaves that are in memory, of this index and all that were made from it.
    pub fn forget_leaves(&self) {
        self.nodes.leaves.take();
    }

    /// The entry of `key_hash`, or None. Checks only the part of the leaf that it needs.
    pub fn get(&self, key_hash: &Hash) -> Outcome<Option<Vec<u8>>> {
        let Some(mut subtree) = self.top() else { return Ok(None) };
        let mut depth = 0;
        while subtree.size > LEAF_ENTRIES_MAX {
            let node = self.nodes.interior(&subtree, depth)?;
            let Some(child) = node.children[nibble(key_hash, depth)] else { return Ok(None) };
            subtree = child;
            depth += 1;
        }
        self.nodes.entry(&subtree, key_hash)
    }

    /// Key hashes greater than `after_hash`, ascending, with their entries. One leaf at a time is
    /// in memory.
    pub fn items(
        &self,
        after_hash: Option<Hash>,
    ) -> impl Iterator<Item = Outcome<(Hash, Vec<u8>)>> + '_ {
        let mut walk = self.walk(after_hash, |_: &Hash| false);
        let mut rows = Vec::new().into_iter();
        std::iter::from_fn(move || loop {
            if let Some(row) = rows.next() {
                return Some(Ok(row));
            }
            let leaf = match walk.next()? {
                Ok((subtree, prefix)) if subtree.size <= LEAF_ENTRIES_MAX => {
                    self.nodes.leaf(&subtree, prefix)
                }
                Ok(_) => continue,
                Err(failure) => Err(failure),
            };
            match leaf {
                Ok(leaf) => {
                    let pairs = leaf.keys.into_iter().zip(leaf.entries);
                    let newer = |key: &Hash| after_hash.is_none_or(|after| *key > after);
                    rows = pairs.filter(|(key, _)| newer(key)).collect::<Vec<_>>().into_iter();
                }
                Err(failure) => return Some(Err(failure)),
            }
        })
    }

    /// The hash of every node, once, a node before its children. Reads no leaf. A node for which
    /// `skip` returns true is left out, with everything below it.
    pub fn nodes<'a>(
        &'a self,
        skip: impl FnMut(&Hash) -> bool + 'a,
    ) -> impl Iterator<Item = Outcome<Hash>> + 'a {
        self.walk(None, skip).map(|part| part.map(|(subtree, _)| subtree.hash))
    }

    /// As `nodes`, each hash with the node's own entries; only leaves have some.
    pub fn leaves<'a>(
        &'a self,
        skip: impl FnMut(&Hash) -> bool + 'a,
    ) -> impl Iterator<Item = Outcome<(Hash, Vec<Vec<u8>>)>> + 'a {
        self.walk(None, skip).map(|part| {
            let (subtree, prefix) = part?;
            let entries = match subtree.size <= LEAF_ENTRIES_MAX {
                true => self.nodes.leaf(&subtree, prefix)?.entries,
                false => Vec::new(),
            };
            Ok((subtree.hash, entries))
        })
    }

    fn walk<Skip: FnMut(&Hash) -> bool>(&self, beyond: Option<Hash>, skip: Skip) -> Walk<'_, Skip> {
        let ahead = self.top().map(|top| (top, Prefix::NONE)).into_iter().collect();
        Walk { nodes: &self.nodes, beyond, skip, ahead, opened: None }
    }

    /// The nodes from the root to where the entry of `key_hash` is or would be.
    pub fn prove(&self, key_hash: &Hash) -> Outcome<Vec<Vec<u8>>> {
        let mut proof: Vec<Vec<u8>> = Vec::new();
        let mut next = self.top();
        while let Some(subtree) = next {
            let depth = proof.len();
            let data = self.nodes.read.read(&subtree.hash)?;
            if subtree.size <= LEAF_ENTRIES_MAX {
                read_leaf(&data, subtree.size, Prefix::of(key_hash, depth), &subtree.hash)?;
                proof.push(data);
                break;
            }
            let node = read_interior(&data, &subtree.hash)?;
            check(&node, &subtree, depth)?;
            proof.push(data);
            next = node.children[nibble(key_hash, depth)];
        }
        Ok(proof)
    }

    /// The index after `changes`: bytes set an entry, None deletes it if it exists. A key hash may
    /// occur once.
    ///
    /// `put` receives the bytes of each new node, children first; the reader must find them when
    /// the new index is used. After a failure this index is unchanged, and the nodes that `put`
    /// received belong to no index. An entry has at most `ENTRY_BYTES_MAX` bytes.
    pub fn updated(&self, mut changes: Changes, put: Put) -> Outcome<CellIndex> {
        changes.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        debug_assert!(changes.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(changes
            .iter()
            .all(|(_, value)| value.as_ref().is_none_or(|entry| entry.len() <= ENTRY_BYTES_MAX)));
        let top = Update { nodes: &self.nodes, changes: &changes, put }.written(self.top())?;
        Ok(CellIndex {
            root: top.map(|top| top.hash),
            count: top.map_or(0, |top| top.size),
            nodes: self.nodes.clone(),
        })
    }

    fn top(&self) -> Option<Subtree> {
        self.root.map(|hash| Subtree { hash, size: self.count })
    }
}

/// Changes of an index: key hashes with their new entries, or None.
pub type Changes = Vec<(Hash, Option<Vec<u8>>)>;

/// Every subtree, with the hex digits that its key hashes share, in the order of the digits.
/// Subtrees in which no key hash can be greater than `beyond` are left out.
struct Walk<'a, Skip> {
    nodes: &'a Nodes,
    beyond: Option<Hash>,
    skip: Skip,
    ahead: Vec<(Subtree, Prefix)>,
    /// The last subtree that was returned, whose children come next.
    opened: Option<(Subtree, Prefix)>,
}

impl<Skip: FnMut(&Hash) -> bool> Walk<'_, Skip> {
    fn open(&mut self, subtree: Subtree, prefix: Prefix) -> Outcome<()> {
        let node = self.nodes.interior(&subtree, prefix.count())?;
        for (digit, child) in node.children.iter().enumerate().rev() {
            if let Some(child) = child {
                self.ahead.push((*child, prefix.followed_by(digit)));
            }
        }
        Ok(())
    }
}

impl<Skip: FnMut(&Hash) -> bool> Iterator for Walk<'_, Skip> {
    type Item = Outcome<(Subtree, Prefix)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((subtree, prefix)) = self.opened.take() {
            if let Err(failure) = self.open(subtree, prefix) {
                self.ahead.clear();
                return Some(Err(failure));
            }
        }
        loop {
            let (subtree, prefix) = self.ahead.pop()?;
            if self.beyond.is_some_and(|beyond| prefix.is_before(&beyond))
                || (self.skip)(&subtree.hash)
            {
                continue;
            }
            if subtree.size > LEAF_ENTRIES_MAX {
                self.opened = Some((subtree, prefix));
            }
            return Some(Ok((subtree, prefix)));
        }
    }
}

/// A part of an index that is being changed: nothing, a written subtree, or entries that are not
/// written until it is known that they form a leaf of their own. The interior node above may have
/// become so small that its children merge into one leaf.
#[derive(Clone, PartialEq)]
enum Part {
    Nothing,
    Written(Subtree),
    Entries(Leaf),
}

impl Part {
    fn of(subtree: Option<Subtree>) -> Self {
        subtree.map_or(Part::Nothing, Part::Written)
    }

    fn size(&self) -> u64 {
        match self {
            Part::Nothing => 0,
            Part::Written(subtree) => subtree.size,
            Part::Entries(leaf) => leaf.keys.len() as u64,
        }
    }
}

/// One batch of changes on its way down, and the new nodes on their way up.
struct Update<'a> {
    nodes: &'a Nodes,
    changes: &'a [(Hash, Option<Vec<u8>>)],
    put: Put<'a>,
}

impl Update<'_> {
    fn written(&mut self, top: Option<Subtree>) -> Outcome<Option<Subtree>> {
        if self.changes.is_empty() {
            return Ok(top);
        }
        let changed = self.changed(top, 0, 0, self.changes.len())?;
        Ok(self.stored(changed))
    }

    /// `subtree` after the changes from `start` to `end`, which all belong to it; the same subtree
    /// if they change nothing.
    fn changed(
        &mut self,
        subtree: Option<Subtree>,
        depth: usize,
        start: usize,
        end: usize,
    ) -> Outcome<Part> {
        let old = match subtree {
            Some(subtree) if subtree.size > LEAF_ENTRIES_MAX => subtree,
            _ => return self.changed_leaf(subtree, depth, start, end),
        };
        let old_children = self.nodes.interior(&old, depth)?.children;
        let mut children = old_children.map(Part::of);
        let mut at = start;
        while at < end {
            let digit = nibble(&self.changes[at].0, depth);
            let run = self.changes[at..end]
                .partition_point(|(key_hash, _)| nibble(key_hash, depth) == digit);
            children[digit] = self.changed(old_children[digit], depth + 1, at, at + run)?;
            at += run;
        }
        if children.iter().zip(&old_children).all(|(part, old)| *part == Part::of(*old)) {
            return Ok(Part::Written(old));
        }
        if children.iter().map(Part::size).sum::<u64>() > LEAF_ENTRIES_MAX {
            return Ok(Part::Written(self.interior(children)));
        }
        self.gathered(children, Prefix::of(&self.changes[start].0, depth))
    }

    fn changed_leaf(
        &mut self,
        leaf: Option<Subtree>,
        depth: usize,
        start: usize,
        end: usize,
    ) -> Outcome<Part> {
        let changes = &self.changes[start..end];
        let old = match leaf {
            Some(leaf) => self.nodes.leaf(&leaf, Prefix::of(&changes[0].0, depth))?,
            None => Leaf::default(),
        };
        let mut contents = Leaf::default();
        let mut kept = old.keys.iter().zip(&old.entries).peekable();
        for (key_hash, value) in changes {
            while let Some((key, entry)) = kept.next_if(|(key, _)| *key < key_hash) {
                contents.keys.push(*key);
                contents.entries.push(entry.clone());
            }
            kept.next_if(|(key, _)| *key == key_hash);
            if let Some(entry) = value {
                contents.keys.push(*key_hash);
                contents.entries.push(entry.clone());
            }
        }
        for (key, entry) in kept {
            contents.keys.push(*key);
            contents.entries.push(entry.clone());
        }
        Ok(self.split(contents, depth, leaf, &old))
    }

    /// Make a subtree of entries: one leaf, or an interior node that splits them by nibble. If they
    /// equal `old`, the result is the stored `leaf`, at this depth or a deeper one: the bytes of a
    /// leaf do not depend on its depth.
    fn split(&mut self, contents: Leaf, depth: usize, leaf: Option<Subtree>, old: &Leaf) -> Part {
        if contents.keys.len() as u64 <= LEAF_ENTRIES_MAX {
            return if contents == *old {
                Part::of(leaf)
            } else if contents.keys.is_empty() {
                Part::Nothing
            } else {
                Part::Entries(contents)
            };
        }
        let mut parts: [Leaf; FANOUT] = Default::default();
        for (key, entry) in contents.keys.into_iter().zip(contents.entries) {
            let part = &mut parts[nibble(&key, depth)];
            part.keys.push(key);
            part.entries.push(entry);
        }
        let children = parts.map(|part| match part.keys.is_empty() {
            true => Part::Nothing,
            false => self.split(part, depth + 1, leaf, old),
        });
        Part::Written(self.interior(children))
    }

    /// Merge the children of a node that became too small to be interior; all are leaves.
    fn gathered(&mut self, children: [Part; FANOUT], prefix: Prefix) -> Outcome<Part> {
        let mut present: Vec<(usize, Part)> = children
            .into_iter()
            .enumerate()
            .filter(|(_, part)| !matches!(part, Part::Nothing))
            .collect();
        if present.len() <= 1 {
            // The only child takes the place of its parent and is not written again.
            return Ok(present.pop().map_or(Part::Nothing, |(_, part)| part));
        }
        let mut gathered = Leaf::default();
        for (digit, part) in present {
            let contents = match part {
                Part::Entries(leaf) => leaf,
                Part::Written(leaf) => self.nodes.leaf(&leaf, prefix.followed_by(digit))?,
                Part::Nothing => continue,
            };
            gathered.keys.extend(contents.keys);
            gathered.entries.extend(contents.entries);
        }
        Ok(Part::Entries(gathered))
    }

    fn interior(&mut self, children: [Part; FANOUT]) -> Subtree {
        let children = children.map(|part| self.stored(part));
        let size = children.iter().flatten().map(|child| child.size).sum();
        let hash = (self.put)(interior_bytes(&Interior { size: size as u128, children }));
        Subtree { hash, size }
    }

    /// Write `part` unless it is written.
    fn stored(&mut self, part: Part) -> Option<Subtree> {
        match part {
            Part::Nothing => None,
            Part::Written(subtree) => Some(subtree),
            Part::Entries(leaf) => {
                let hash = (self.put)(leaf_bytes(&leaf));
                Some(Subtree { hash, size: leaf.keys.len() as u64 })
            }
        }
    }
}

/// The entry that `proof` proves under `root`; None if it proves that there is none. Damage if it
/// proves neither.
pub fn proved<'a>(
    root: Option<&Hash>,
    key_hash: &Hash,
    proof: &'a [Vec<u8>],
) -> Outcome<Option<&'a [u8]>> {
    let count = proof.len().to_string();
    let Some(root) = root else {
        if !proof.is_empty() {
            return refuse_proof("no nodes, for an index without entries", &count);
        }
        return Ok(None);
    };
    let mut subtree: Option<Subtree> = None;
    for (depth, data) in proof.iter().enumerate() {
        if depth > 0 && subtree.is_none() {
            let expected = format!("its end after {depth} nodes, for there is no child");
            return refuse_proof(&expected, &count);
        }
        let node_hash = subtree.map_or(*root, |subtree| subtree.hash);
        let actual = content_hash(data);
        if actual != node_hash {
            let expected = format!("{} as node {depth}", hash_text(&node_hash));
            return refuse_proof(&expected, &hash_text(&actual));
        }
        let size = match subtree {
            Some(subtree) => subtree.size as u128,
            None => size_in(data, root)?,
        };
        if size <= LEAF_ENTRIES_MAX as u128 {
            if depth + 1 != proof.len() {
                let expected = format!("its end after {} nodes, at a leaf", depth + 1);
                return refuse_proof(&expected, &count);
            }
            read_leaf(data, size as u64, Prefix::of(key_hash, depth), &node_hash)?;
            return entry_in(data, size as u64, key_hash, &node_hash);
        }
        let node = read_interior(data, &node_hash)?;
        check_size(&node, size, &node_hash, depth)?;
        subtree = node.children[nibble(key_hash, depth)];
    }
    if subtree.is_some() || proof.is_empty() {
        let actual = format!("{}, and no more", proof.len());
        return refuse_proof("the nodes down to the key hash", &actual);
    }
    Ok(None)
}

fn size_in(data: &[u8], at: &Hash) -> Outcome<u128> {
    match leaf_count(data) {
        Some(count) => Ok(count as u128),
        None => Ok(read_interior(data, at)?.size),
    }
}

/// Check that `node` has the size that its parent states, at a possible depth.
fn check(node: &Interior, subtree: &Subtree, depth: usize) -> Outcome<()> {
    check_size(node, subtree.size as u128, &subtree.hash, depth)
}

fn check_size(node: &Interior, size: u128, hash: &Hash, depth: usize) -> Outcome<()> {
    if node.size == size && depth <= INTERIOR_DEPTH_MAX {
        return Ok(());
    }
    let sentence = Sentence {
        problem: "damaged",
        location: Some(&format!("index node {}", hash_text(hash))),
        expected: Some(&format!("{size} entries, at most {INTERIOR_DEPTH_MAX} nibbles down")),
        actual: Some(&format!("{}, {depth} nibbles down", node.size)),
        hint: None,
    };
    Err(Failure::Damage(sentence.text()))
}

fn refuse_proof<T>(expected: &str, actual: &str) -> Outcome<T> {
    let sentence = Sentence {
        problem: "the proof of an entry is not one",
        expected: Some(expected),
        actual: Some(actual),
        hint: Some("get it again"),
        location: None,
    };
    Err(Failure::Damage(sentence.text()))
}
