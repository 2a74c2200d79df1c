//! Merkle trees over hashes, in the shape of RFC 6962 (spec/journal.md, J-20 to J-23;
//! `kernel/aos/core/journal/merkle.py`).

use crate::values::digests::{content_hash, digest, Hash, HASH_BYTES};
use crate::values::hash_lanes::{content_hashes, LANES};

const OPENING: &[u8] = b"\x83\x6aaos/node/1\x58\x20";
const MIDDLE: usize = OPENING.len() + HASH_BYTES;
const NODE_BYTES: usize = MIDDLE + 2 + HASH_BYTES;

pub fn node(left: &Hash, right: &Hash) -> Hash {
    content_hash(&node_bytes(left, right))
}

fn node_bytes(left: &Hash, right: &Hash) -> [u8; NODE_BYTES] {
    let mut preimage = [0u8; NODE_BYTES];
    preimage[..OPENING.len()].copy_from_slice(OPENING);
    preimage[OPENING.len()..MIDDLE].copy_from_slice(left);
    preimage[MIDDLE..MIDDLE + 2].copy_from_slice(b"\x58\x20");
    preimage[MIDDLE + 2..].copy_from_slice(right);
    preimage
}

/// The root over no leaves.
pub fn empty() -> Hash {
    digest("aos/empty/1", 0, |_| {})
}

/// The root over `leaves`: the leaf itself for one.
pub fn root(mut leaves: Vec<Hash>) -> Hash {
    if leaves.is_empty() {
        return empty();
    }
    while leaves.len() > 1 {
        // Pairs from the left; an odd last one moves to the next level unchanged.
        let pairs = leaves.len() / 2;
        let in_lanes = pairs - pairs % LANES;
        for i in (0..in_lanes).step_by(LANES) {
            let pair = |lane| 2 * (i + lane);
            let nodes: [_; LANES] = std::array::from_fn(|lane| {
                node_bytes(&leaves[pair(lane)], &leaves[pair(lane) + 1])
            });
            let hashes = content_hashes(nodes.each_ref().map(|node| &node[..]));
            leaves[i..i + LANES].copy_from_slice(&hashes);
        }
        for i in in_lanes..pairs {
            leaves[i] = node(&leaves[2 * i], &leaves[2 * i + 1]);
        }
        if leaves.len() % 2 == 1 {
            leaves[pairs] = leaves[2 * pairs];
        }
        let above = leaves.len().div_ceil(2);
        leaves.truncate(above);
    }
    leaves[0]
}

/// The sibling hashes on the path from leaf `index` to the root, lowest first. `index` is one of
/// the leaves'.
pub fn proof(leaves: &[Hash], index: usize) -> Vec<Hash> {
    assert!(index < leaves.len());
    if leaves.len() == 1 {
        return Vec::new();
    }
    let (left, right) = leaves.split_at(split(leaves.len() as u64) as usize);
    let (mut path, sibling) = if index < left.len() {
        (proof(left, index), right)
    } else {
        (proof(right, index - left.len()), left)
    };
    path.push(root(sibling.to_vec()));
    path
}

/// The largest power of two below `size`, which is at least 2.
fn split(size: u64) -> u64 {
    1 << (63 - (size - 1).leading_zeros())
}

/// The root that `path` proves for `leaf` at `index` of `size`; None if a path for this leaf must
/// have another length.
pub fn root_from(leaf: &Hash, index: u64, size: u64, path: &[Hash]) -> Option<Hash> {
    if index >= size {
        return None;
    }
    if size == 1 {
        return path.is_empty().then_some(*leaf);
    }
    let (sibling, lower) = path.split_last()?;
    let split = split(size);
    Some(if index < split {
        node(&root_from(leaf, index, split, lower)?, sibling)
    } else {
        node(sibling, &root_from(leaf, index - split, size - split, lower)?)
    })
}

/// A tree that only grows: its size, and the roots of its complete subtrees, largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub size: u64,
    pub peaks: Vec<Hash>,
}

impl Tree {
    pub fn append(&mut self, leaf: Hash) {
        let mut leaf = leaf;
        let mut size = self.size;
        while size & 1 == 1 {
            let peak = self.peaks.pop().expect("a peak for each bit of the size");
            leaf = node(&peak, &leaf);
            size >>= 1;
        }
        self.size += 1;
        self.peaks.push(leaf);
    }

    pub fn root(&self) -> Hash {
        let Some((last, before)) = self.peaks.split_last() else { return empty() };
        before.iter().rev().fold(*last, |below, peak| node(peak, &below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_proof_leads_to_the_root_and_a_tree_grows_to_it() {
        let mut tree = Tree::default();
        let mut leaves = Vec::new();
        assert_eq!(tree.root(), root(Vec::new()));
        for n in 0..20u8 {
            leaves.push([n; 32]);
            tree.append([n; 32]);
            let whole = root(leaves.clone());
            assert_eq!(tree.root(), whole);
            for index in 0..leaves.len() {
                let path = proof(&leaves, index);
                let size = leaves.len() as u64;
                assert_eq!(root_from(&leaves[index], index as u64, size, &path), Some(whole));
                assert_eq!(root_from(&leaves[index], index as u64, 2 * size + 1, &path), None);
            }
        }
        assert_eq!(root_from(&[0; 32], 5, 5, &[]), None);
    }
}
