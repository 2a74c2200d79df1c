//! SHA-256 (FIPS 180-4), for messages that are in memory whole.

use alloc::string::String;
use alloc::vec::Vec;

const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

const START: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

/// `sha256:` and 64 lower-case hex digits.
pub fn text(message: &[u8]) -> String {
    let mut out = String::from("sha256:");
    for word in digest(message) {
        for shift in (0..8).rev() {
            let digit = word >> (4 * shift) & 0xf;
            out.push(char::from_digit(digit, 16).unwrap_or('?'));
        }
    }
    out
}

fn digest(message: &[u8]) -> [u32; 8] {
    let mut padded = Vec::from(message);
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    let mut state = START;
    for block in padded.chunks_exact(64) {
        take(&mut state, block);
    }
    state
}

fn take(state: &mut [u32; 8], block: &[u8]) {
    let mut words = [0u32; 64];
    for (index, four) in block.chunks_exact(4).enumerate() {
        words[index] = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
    }
    for i in 16..64 {
        let (a, b) = (words[i - 15], words[i - 2]);
        let small = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
        let large = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
        words[i] = words[i - 16].wrapping_add(small).wrapping_add(words[i - 7]).wrapping_add(large);
    }
    let mut now = *state;
    for i in 0..64 {
        let [a, b, c, d, e, f, g, h] = now;
        let first = h
            .wrapping_add(e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25))
            .wrapping_add(e & f ^ !e & g)
            .wrapping_add(ROUNDS[i])
            .wrapping_add(words[i]);
        let second = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22))
            .wrapping_add(a & b ^ a & c ^ b & c);
        now = [first.wrapping_add(second), a, b, c, d.wrapping_add(first), e, f, g];
    }
    for (held, new) in state.iter_mut().zip(now) {
        *held = held.wrapping_add(new);
    }
}
