//! `map`: entries in the order of their keys' canonical bytes.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::air::Type;
use crate::cbor::{self, Reader, SET_ASIDE_MAX, Stop};
use crate::schema::{Key, Schema};

/// Keys with a value each, in canonical order: shorter text before longer, 0, 1, 2 … before -1, -2
/// …
///
/// ```
/// use aos_sdk::Map;
///
/// let mut stock = Map::new();
/// stock.insert(String::from("tea"), 3u64);
/// *stock.or_default(&String::from("tea")) += 1;
/// assert_eq!(stock.get(&String::from("tea")), Some(&4));
/// assert_eq!(stock.remove(&String::from("tea")), Some(4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Map<K, V> {
        Map { entries: Vec::new() }
    }
}

impl<K: Key, V> Map<K, V> {
    pub fn new() -> Map<K, V> {
        Map::default()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The index of `key`, or the index where it would be inserted.
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by(|(other, _)| other.order(key))
    }

    pub fn contains(&self, key: &K) -> bool {
        self.place(key).is_ok()
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.place(key).ok().map(|place| &self.entries[place].1)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(key).ok().map(|place| &mut self.entries[place].1)
    }

    /// The value of before, if there was one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(place) => Some(core::mem::replace(&mut self.entries[place].1, value)),
            Err(place) => {
                self.entries.insert(place, (key, value));
                None
            }
        }
    }

    /// The value of `key`, which is made first where there is none.
    pub fn or_default(&mut self, key: &K) -> &mut V
    where
        K: Clone,
        V: Default,
    {
        let place = self.place(key).unwrap_or_else(|place| {
            self.entries.insert(place, (key.clone(), V::default()));
            place
        });
        &mut self.entries[place].1
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.place(key).ok().map(|place| self.entries.remove(place).1)
    }

    pub(crate) fn remove_first(&mut self, is_it: impl FnMut(&(K, V)) -> bool) -> Option<(K, V)> {
        let place = self.entries.iter().position(is_it)?;
        Some(self.entries.remove(place))
    }

    pub fn iter(&self) -> core::slice::Iter<'_, (K, V)> {
        self.entries.iter()
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| value)
    }
}

/// Where a key comes twice the last value stays.
impl<K: Key, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Map<K, V> {
        let mut map = Map::new();
        entries.into_iter().for_each(|(key, value)| {
            map.insert(key, value);
        });
        map
    }
}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = &'a (K, V);
    type IntoIter = core::slice::Iter<'a, (K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = alloc::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<K: Key, V: Schema> Schema for Map<K, V> {
    const TYPE: Type = Type::Map { key: &K::TYPE, value: &V::TYPE };

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_map(self.entries.len(), out);
        self.entries.iter().for_each(|(key, value)| {
            key.write(out);
            value.write(out);
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Map<K, V>, Stop> {
        let length = from.map()?;
        let mut entries: Vec<(K, V)> = Vec::with_capacity(length.min(SET_ASIDE_MAX));
        for _ in 0..length {
            let key = K::read(from)?;
            if entries.last().is_some_and(|(last, _)| last.order(&key) != Ordering::Less) {
                return Err(from.stop("ascending keys before here"));
            }
            entries.push((key, V::read(from)?));
        }
        Ok(Map { entries })
    }
}
