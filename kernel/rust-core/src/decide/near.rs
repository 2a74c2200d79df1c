//! The word that an author may have meant: `difflib.get_close_matches` of Python, whose answers are
//! in refusals.

use std::collections::HashMap;

/// Popular characters of so long a word do not begin a match.
const LONG: usize = 200;

/// The word of `possibilities` that is most similar to `word`, at least by `cutoff`; of equals the
/// last in order.
pub fn nearest<'a>(
    word: &str,
    possibilities: impl Iterator<Item = &'a str>,
    cutoff: f64,
) -> Option<&'a str> {
    let word: Vec<char> = word.chars().collect();
    let places = places_in(&word);
    let mut best: Option<(f64, &str)> = None;
    for possibility in possibilities {
        let other: Vec<char> = possibility.chars().collect();
        let ratio = ratio(&other, &word, &places);
        let is_better = best.is_none_or(|(most, last)| (ratio, possibility) > (most, last));
        if ratio >= cutoff && is_better {
            best = Some((ratio, possibility));
        }
    }
    best.map(|(_, possibility)| possibility)
}

type Places = HashMap<char, Vec<usize>>;

fn places_in(word: &[char]) -> Places {
    let mut places = Places::new();
    for (at, character) in word.iter().enumerate() {
        places.entry(*character).or_default().push(at);
    }
    if word.len() >= LONG {
        let popular = word.len() / 100 + 1;
        places.retain(|_, all| all.len() <= popular);
    }
    places
}

fn ratio(a: &[char], b: &[char], places: &Places) -> f64 {
    let length = a.len() + b.len();
    if length == 0 {
        return 1.0;
    }
    let mut matches = 0;
    let mut parts = vec![(0, a.len(), 0, b.len())];
    while let Some((a_low, a_high, b_low, b_high)) = parts.pop() {
        let (i, j, size) = longest_match(a, b, places, (a_low, a_high, b_low, b_high));
        if size > 0 {
            matches += size;
            if a_low < i && b_low < j {
                parts.push((a_low, i, b_low, j));
            }
            if i + size < a_high && j + size < b_high {
                parts.push((i + size, a_high, j + size, b_high));
            }
        }
    }
    2.0 * matches as f64 / length as f64
}

/// (start in `a`, start in `b`, size) of the longest match within the bounds; of equals the first in
/// `a`, then in `b`.
fn longest_match(
    a: &[char],
    b: &[char],
    places: &Places,
    (a_low, a_high, b_low, b_high): (usize, usize, usize, usize),
) -> (usize, usize, usize) {
    let (mut i, mut j, mut size) = (a_low, b_low, 0);
    let mut sizes: HashMap<usize, usize> = HashMap::new();
    for (at, character) in a.iter().enumerate().take(a_high).skip(a_low) {
        let mut next = HashMap::new();
        for &place in places.get(character).into_iter().flatten() {
            if place < b_low {
                continue;
            }
            if place >= b_high {
                break;
            }
            let before = place.checked_sub(1).and_then(|place| sizes.get(&place));
            let here = before.copied().unwrap_or(0) + 1;
            next.insert(place, here);
            if here > size {
                (i, j, size) = (at + 1 - here, place + 1 - here, here);
            }
        }
        sizes = next;
    }
    while i > a_low && j > b_low && a[i - 1] == b[j - 1] {
        (i, j, size) = (i - 1, j - 1, size + 1);
    }
    while i + size < a_high && j + size < b_high && a[i + size] == b[j + size] {
        size += 1;
    }
    (i, j, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_that_of_difflib() {
        let words = ["shop/OrderPlaced@1", "shop/OrderPaid@1", "shop/Refunded@1"];
        let near = |word| nearest(word, words.iter().copied(), 0.75);
        assert_eq!(near("shop/OrderPlaced"), Some("shop/OrderPlaced@1"));
        assert_eq!(near("shop/OrderPaids@1"), Some("shop/OrderPaid@1"));
        assert_eq!(near("weather"), None);
        assert_eq!(nearest("", ["", "x"].iter().copied(), 0.75), Some(""));
    }
}
