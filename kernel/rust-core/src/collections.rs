//! Maps of the state: hashed with a seed of the host, and in the order of insertion.
//!
//! Cell keys and ids are chosen by senders, so a fixed hasher would let them choose collisions. On
//! wasm32 the standard hasher has a fixed key; the host passes 16 random bytes at init. The order
//! of a plain map must never show, so only an `OrderedMap` is iterated.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

static SEED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Choose the seed of all maps that are made from now on. Call it once, before the first map.
pub fn seed_maps(seed: [u64; 2]) {
    SEED[0].store(seed[0], Ordering::Relaxed);
    SEED[1].store(seed[1], Ordering::Relaxed);
}

#[derive(Clone, Copy)]
pub struct Seeded([u64; 2]);

impl Default for Seeded {
    fn default() -> Self {
        Seeded([SEED[0].load(Ordering::Relaxed), SEED[1].load(Ordering::Relaxed)])
    }
}

impl BuildHasher for Seeded {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        let [first, second] = self.0;
        let lanes = [
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ];
        SeededHasher { lanes, tail: 0, held: 0, size: 0 }
    }
}

/// SipHash-1-3 (Aumasson and Bernstein), which the maps of Rust and Python have, too. Without its
/// key, no one can choose texts that collide. The standard library gives a key to SipHash-2-4
/// alone, which takes almost twice as long.
pub struct SeededHasher {
    lanes: [u64; 4],
    /// The last `held` bytes, which do not fill a word yet.
    tail: u64,
    held: usize,
    size: usize,
}

impl SeededHasher {
    #[inline]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.lanes;
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }

    #[inline]
    fn add(&mut self, word: u64) {
        self.lanes[3] ^= word;
        self.round();
        self.lanes[0] ^= word;
    }
}

/// At most eight bytes as a number, the lowest first.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    match bytes.try_into() {
        Ok(whole) => u64::from_le_bytes(whole),
        Err(_) => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

impl Hasher for SeededHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.size = self.size.wrapping_add(bytes.len());
        let mut rest = bytes;
        if self.held > 0 {
            let (start, end) = rest.split_at(rest.len().min(8 - self.held));
            self.tail |= word_of(start) << (8 * self.held);
            self.held += start.len();
            if self.held < 8 {
                return;
            }
            self.add(self.tail);
            rest = end;
        }
        let words = rest.chunks_exact(8);
        let end = words.remainder();
        words.for_each(|word| self.add(word_of(word)));
        (self.tail, self.held) = (word_of(end), end.len());
    }

    #[inline]
    fn finish(&self) -> u64 {
        let mut last = SeededHasher { ..*self };
        last.add((self.size as u64) << 56 | self.tail);
        last.lanes[2] ^= 0xff;
        for _ in 0..3 {
            last.round();
        }
        last.lanes.iter().fold(0, |hash, lane| hash ^ lane)
    }
}

/// A map whose order is never looked at.
pub type SeededMap<K, V> = HashMap<K, V, Seeded>;
/// A set whose order is never looked at.
pub type SeededSet<K> = std::collections::HashSet<K, Seeded>;

const NONE: usize = usize::MAX;

#[derive(Clone)]
struct Node<K, V> {
    key: K,
    value: V,
    previous: usize,
    next: usize,
}

/// A map in the order of insertion, as a Python dict: a key that is set again keeps its place, and
/// the first entry is removed in constant time.
#[derive(Clone)]
pub struct OrderedMap<K, V> {
    places: SeededMap<K, usize>,
    nodes: Vec<Option<Node<K, V>>>,
    free: Vec<usize>,
    first: usize,
    last: usize,
}

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        OrderedMap {
            places: SeededMap::default(),
            nodes: Vec::new(),
            free: Vec::new(),
            first: NONE,
            last: NONE,
        }
    }
}

impl<K: Hash + Eq + Clone + std::fmt::Debug, V: std::fmt::Debug> std::fmt::Debug
    for OrderedMap<K, V>
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Hash + Eq + Clone, V> OrderedMap<K, V> {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.places.contains_key(key)
    }

    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.places.get(key).map(|&at| &self.node(at).value)
    }

    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = *self.places.get(key)?;
        self.nodes[at].as_mut().map(|node| &mut node.value)
    }

    /// The key that the map has, and its value.
    pub fn get_entry<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let node = self.node(*self.places.get(key)?);
        Some((&node.key, &node.value))
    }

    /// Set a key; a new one comes last. Returns the value that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let place = match self.places.entry(key) {
            Entry::Occupied(place) => {
                let node = self.nodes[*place.get()].as_mut().expect("a placed node");
                return Some(std::mem::replace(&mut node.value, value));
            }
            Entry::Vacant(place) => place,
        };
        let node = Some(Node { key: place.key().clone(), value, previous: NONE, next: NONE });
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        place.insert(at);
        self.append(at);
        None
    }

    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if self.is_empty() {
            return None;
        }
        let at = self.places.remove(key)?;
        Some(self.unlink(at).1)
    }

    /// The value of a key, which moves to the end.
    pub fn touch<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = *self.places.get(key)?;
        self.part(at);
        self.append(at);
        Some(&self.node(at).value)
    }

    pub fn pop_first(&mut self) -> Option<(K, V)> {
        if self.first == NONE {
            return None;
        }
        let (key, value) = self.unlink(self.first);
        self.places.remove(&key);
        Some((key, value))
    }

    pub fn first(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            if at == NONE {
                return None;
            }
            let node = self.node(at);
            at = node.next;
            Some((&node.key, &node.value))
        })
    }

    /// All entries in their order.
    pub fn into_entries(mut self) -> Vec<(K, V)> {
        let mut entries = Vec::with_capacity(self.len());
        let mut at = self.first;
        while at != NONE {
            let node = self.nodes[at].take().expect("a placed node");
            at = node.next;
            entries.push((node.key, node.value));
        }
        entries
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    fn node(&self, at: usize) -> &Node<K, V> {
        self.nodes[at].as_ref().expect("a placed node")
    }

    fn node_mut(&mut self, at: usize) -> &mut Node<K, V> {
        self.nodes[at].as_mut().expect("a placed node")
    }

    fn unlink(&mut self, at: usize) -> (K, V) {
        self.part(at);
        let node = self.nodes[at].take().expect("a placed node");
        self.free.push(at);
        (node.key, node.value)
    }

    /// Take a node out of the order.
    fn part(&mut self, at: usize) {
        let Node { previous, next, .. } = *self.node(at);
        match previous {
            NONE => self.first = next,
            previous => self.node_mut(previous).next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.node_mut(next).previous = previous,
        }
    }

    /// Put a node that is not in the order at its end.
    fn append(&mut self, at: usize) {
        let last = std::mem::replace(&mut self.last, at);
        let node = self.node_mut(at);
        (node.previous, node.next) = (last, NONE);
        match last {
            NONE => self.first = at,
            last => self.node_mut(last).next = at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hasher_is_siphash_1_3() {
        let data: Vec<u8> = (0..64).collect();
        let hash = |seed: Seeded, parts: &[&[u8]]| {
            let mut hasher = seed.build_hasher();
            parts.iter().for_each(|part| hasher.write(part));
            hasher.finish()
        };
        for size in 0..data.len() {
            // The standard library's hasher without a key is the same function.
            let mut standard = std::hash::DefaultHasher::new();
            standard.write(&data[..size]);
            assert_eq!(hash(Seeded([0, 0]), &[&data[..size]]), standard.finish());
            for cut in 0..size {
                let (start, end) = data[..size].split_at(cut);
                assert_eq!(hash(Seeded([0, 0]), &[start, end, &[]]), standard.finish());
            }
        }
        // The vectors of the standard library's tests.
        let key = Seeded([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        assert_eq!(hash(key, &[]).to_le_bytes(), [0xdc, 0xc4, 0x0f, 0x05, 0x58, 0x01, 0xac, 0xab]);
        assert_eq!(
            hash(key, &[&data[..1]]).to_le_bytes(),
            [0x93, 0xca, 0x57, 0x7d, 0xf3, 0x9b, 0xf4, 0xc9]
        );
    }

    #[test]
    fn an_ordered_map_keeps_the_order_of_insertion() {
        let mut map = OrderedMap::default();
        for n in 0..5 {
            map.insert(n, n * 10);
        }
        map.insert(1, 11);
        map.remove(&3);
        assert_eq!(map.touch(&0), Some(&0));
        assert_eq!(map.touch(&9), None);
        map.insert(3, 30);
        assert_eq!(map.touch(&3), Some(&30));
        let rows: Vec<_> = map.iter().map(|(k, v)| (*k, *v)).collect();
        assert_eq!(rows, [(1, 11), (2, 20), (4, 40), (0, 0), (3, 30)]);
        assert_eq!(map.pop_first(), Some((1, 11)));
        assert_eq!(map.first(), Some((&2, &20)));
        assert_eq!(map.len(), 4);
    }
}
