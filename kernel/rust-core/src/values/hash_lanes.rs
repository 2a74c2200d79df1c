//! BLAKE3 of four short texts in one computation, whose lanes are the four (spec/values.md, V-60).
//!
//! A frame has a salt, a leaf and a node for each record. One after another, each step of a hash
//! waits for the step before; in lanes, the four do not wait for each other. The functions of
//! `blake3` have lanes only for the chunks of one long text.

use crate::values::digests::{content_hash, Hash};

pub const LANES: usize = 4;
/// A longer text is a tree of chunks, which has no place in a lane.
const CHUNK_BYTES: usize = 1024;
const BLOCK_BYTES: usize = 64;

const IV: [u32; 8] = [
    0x6A09_E667,
    0xBB67_AE85,
    0x3C6E_F372,
    0xA54F_F53A,
    0x510E_527F,
    0x9B05_688C,
    0x1F83_D9AB,
    0x5BE0_CD19,
];
const PERMUTATION: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const ROUNDS: usize = 7;

const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 1 << 1;
const ROOT: u32 = 1 << 3;
const DERIVE_KEY_MATERIAL: u32 = 1 << 6;

/// The content hashes of four texts of any length.
pub fn content_hashes(texts: [&[u8]; LANES]) -> [Hash; LANES] {
    match texts.iter().all(|text| text.len() <= CHUNK_BYTES) {
        true => hashes(&IV, 0, texts),
        false => texts.map(content_hash),
    }
}

/// The keys that BLAKE3's key derivation mode derives from four texts of at most a chunk.
pub fn derived(context_key: &[u8; 32], texts: [&[u8]; LANES]) -> [Hash; LANES] {
    let mut key = [0; 8];
    for (word, bytes) in key.iter_mut().zip(context_key.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    }
    hashes(&key, DERIVE_KEY_MATERIAL, texts)
}

fn hashes(key: &[u32; 8], mode: u32, texts: [&[u8]; LANES]) -> [Hash; LANES] {
    let blocks = texts.map(|text| text.len().div_ceil(BLOCK_BYTES).max(1));
    let most = blocks.into_iter().max().expect("there are lanes");
    let mut chaining = key.map(|word| Lanes::of([word; LANES]));
    let mut found = [[0; 32]; LANES];
    for block in 0..most {
        let mut words = [[0; 16]; LANES];
        let (mut sizes, mut flags) = ([0; LANES], [mode; LANES]);
        for lane in 0..LANES {
            let text = texts[lane].get(block * BLOCK_BYTES..).unwrap_or_default();
            let text = &text[..text.len().min(BLOCK_BYTES)];
            sizes[lane] = text.len() as u32;
            words[lane] = words_of(text);
            if block == 0 {
                flags[lane] |= CHUNK_START;
            }
            if block + 1 == blocks[lane] {
                flags[lane] |= CHUNK_END | ROOT;
            }
        }
        let message =
            std::array::from_fn(|word| Lanes::of(std::array::from_fn(|lane| words[lane][word])));
        chaining = compressed(&chaining, message, Lanes::of(sizes), Lanes::of(flags));
        for lane in (0..LANES).filter(|lane| block + 1 == blocks[*lane]) {
            for (bytes, words) in found[lane].chunks_exact_mut(4).zip(&chaining) {
                bytes.copy_from_slice(&words.words()[lane].to_le_bytes());
            }
        }
    }
    found
}

/// The words of a block; bytes that are missing are zero.
fn words_of(text: &[u8]) -> [u32; 16] {
    let mut padded = [0; BLOCK_BYTES];
    let block: &[u8; BLOCK_BYTES] = match text.try_into() {
        Ok(whole) => whole,
        Err(_) => {
            padded[..text.len()].copy_from_slice(text);
            &padded
        }
    };
    std::array::from_fn(|word| {
        u32::from_le_bytes(block[4 * word..4 * word + 4].try_into().expect("four bytes"))
    })
}

/// The compression function for a chunk without chunks before it.
fn compressed(
    chaining: &[Lanes; 8],
    mut message: [Lanes; 16],
    sizes: Lanes,
    flags: Lanes,
) -> [Lanes; 8] {
    let [c0, c1, c2, c3, c4, c5, c6, c7] = *chaining;
    let [i0, i1, i2, i3, ..] = IV.map(|word| Lanes::of([word; LANES]));
    let zero = Lanes::of([0; LANES]);
    let mut v = [c0, c1, c2, c3, c4, c5, c6, c7, i0, i1, i2, i3, zero, zero, sizes, flags];
    for round in 0..ROUNDS {
        if round > 0 {
            message = PERMUTATION.map(|word| message[word]);
        }
        mix(&mut v, [0, 4, 8, 12], message[0], message[1]);
        mix(&mut v, [1, 5, 9, 13], message[2], message[3]);
        mix(&mut v, [2, 6, 10, 14], message[4], message[5]);
        mix(&mut v, [3, 7, 11, 15], message[6], message[7]);
        mix(&mut v, [0, 5, 10, 15], message[8], message[9]);
        mix(&mut v, [1, 6, 11, 12], message[10], message[11]);
        mix(&mut v, [2, 7, 8, 13], message[12], message[13]);
        mix(&mut v, [3, 4, 9, 14], message[14], message[15]);
    }
    std::array::from_fn(|word| v[word].xor(v[word + 8]))
}

#[inline(always)]
fn mix(v: &mut [Lanes; 16], [a, b, c, d]: [usize; 4], first: Lanes, second: Lanes) {
    v[a] = v[a].plus(v[b]).plus(first);
    v[d] = v[d].xor(v[a]).turned::<16>();
    v[c] = v[c].plus(v[d]);
    v[b] = v[b].xor(v[c]).turned::<12>();
    v[a] = v[a].plus(v[b]).plus(second);
    v[d] = v[d].xor(v[a]).turned::<8>();
    v[c] = v[c].plus(v[d]);
    v[b] = v[b].xor(v[c]).turned::<7>();
}

/// The same word of each lane.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Clone, Copy)]
struct Lanes([u32; LANES]);

#[cfg(not(target_arch = "wasm32"))]
impl Lanes {
    #[inline(always)]
    fn of(words: [u32; LANES]) -> Lanes {
        Lanes(words)
    }

    #[inline(always)]
    fn words(self) -> [u32; LANES] {
        self.0
    }

    #[inline(always)]
    fn plus(self, other: Lanes) -> Lanes {
        Lanes(std::array::from_fn(|lane| self.0[lane].wrapping_add(other.0[lane])))
    }

    #[inline(always)]
    fn xor(self, other: Lanes) -> Lanes {
        Lanes(std::array::from_fn(|lane| self.0[lane] ^ other.0[lane]))
    }

    #[inline(always)]
    fn turned<const BITS: u32>(self) -> Lanes {
        Lanes(self.0.map(|word| word.rotate_right(BITS)))
    }
}

/// The same word of each lane, as one value of the machine.
#[cfg(target_arch = "wasm32")]
#[derive(Clone, Copy)]
struct Lanes(std::arch::wasm32::v128);

#[cfg(target_arch = "wasm32")]
impl Lanes {
    #[inline(always)]
    fn of([a, b, c, d]: [u32; LANES]) -> Lanes {
        Lanes(std::arch::wasm32::u32x4(a, b, c, d))
    }

    #[inline(always)]
    fn words(self) -> [u32; LANES] {
        use std::arch::wasm32::u32x4_extract_lane as word;
        [word::<0>(self.0), word::<1>(self.0), word::<2>(self.0), word::<3>(self.0)]
    }

    #[inline(always)]
    fn plus(self, other: Lanes) -> Lanes {
        Lanes(std::arch::wasm32::i32x4_add(self.0, other.0))
    }

    #[inline(always)]
    fn xor(self, other: Lanes) -> Lanes {
        Lanes(std::arch::wasm32::v128_xor(self.0, other.0))
    }

    #[inline(always)]
    fn turned<const BITS: u32>(self) -> Lanes {
        use std::arch::wasm32::{u32x4_shl, u32x4_shr, u8x16_shuffle, v128_or};
        let x = self.0;
        Lanes(match BITS {
            16 => u8x16_shuffle::<2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13>(x, x),
            8 => u8x16_shuffle::<1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12>(x, x),
            _ => v128_or(u32x4_shr(x, BITS), u32x4_shl(x, 32 - BITS)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_texts_have_the_hashes_that_each_of_them_has() {
        let text: Vec<u8> = (0..1100u32).map(|n| (n * 7 % 251) as u8).collect();
        for size in (0..=130).chain(1000..=1100) {
            let texts = [&text[..size], &text[..size / 2], b"", &text[..size.min(64)]];
            assert_eq!(content_hashes(texts), texts.map(content_hash), "{size} bytes");
        }
    }

    #[test]
    fn a_derived_key_is_that_of_blake3() {
        use blake3::hazmat::hash_derive_key_context;
        let texts: [&[u8]; LANES] = [b"", b"a", &[7; 64], &[9; 40]];
        let keys = derived(&hash_derive_key_context("a context"), texts);
        assert_eq!(keys, texts.map(|text| blake3::derive_key("a context", text)));
    }
}
