//! Random values that are the same in a replay: xoshiro256** from the entropy (`spec/sdk.md`,
//! SD-10 to SD-14).

use crate::types::Uuid;

/// The step's sequence of numbers. It is the same in a replay. Readers of the journal can compute
/// it, so it is never a secret.
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Of the 64 bytes of the entropy; missing ones are 0.
    pub fn new(entropy: &[u8]) -> Random {
        let mut words = [0u64; 8];
        for (index, byte) in entropy.iter().take(64).enumerate() {
            words[index / 8] |= (*byte as u64) << (8 * (index % 8));
        }
        let seed = |index: usize| {
            let step = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mix(words[index].wrapping_add(step)) ^ words[index + 4]
        };
        Random { state: [seed(0), seed(1), seed(2), seed(3)] }
    }

    /// Any number of 64 bits.
    pub fn number(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let (s2, s3) = (s2 ^ s0, s3 ^ s1);
        self.state = [s0 ^ s3, s1 ^ s2, s2 ^ s1 << 17, s3.rotate_left(45)];
        s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// A number from 0 to `bound` - 1, each as likely as the other. A bound of 0 traps.
    pub fn below(&mut self, bound: u64) -> u64 {
        let most = bound - 1;
        let mask = u64::MAX.checked_shr(most.leading_zeros()).unwrap_or(0);
        loop {
            let number = self.number() & mask;
            if number <= most {
                return number;
            }
        }
    }

    /// A uuid of version 4.
    pub fn uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid::from_bytes(bytes)
    }

    /// Fill with numbers, little-endian, the last one cut.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.number().to_le_bytes()[..part.len()]);
        }
    }
}

fn mix(z: u64) -> u64 {
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_xoshiro256_star_star() {
        // The first numbers of the published generator from the state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let expected = [11520, 0, 1509978240, 1215971899390074240];
        assert_eq!(expected.map(|_| random.number()), expected);
    }

    #[test]
    fn a_number_below_a_bound_is_below_it() {
        let mut random = Random::new(&[7; 64]);
        for bound in [1, 2, 3, 10, u64::MAX] {
            assert!((0..100).all(|_| random.below(bound) < bound));
        }
    }

    #[test]
    fn half_of_all_bits_are_set_even_without_entropy() {
        let mut random = Random::new(&[0; 64]);
        let ones: u32 = (0..1000).map(|_| random.number().count_ones()).sum();
        assert!((31_500..32_500).contains(&ones), "{ones}");
    }
}
