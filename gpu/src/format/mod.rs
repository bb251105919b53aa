//! Block formats of quantized weights, one file each: where the fields lie in a block, and what its values are.
//!
//! A row is a run of whole blocks without gaps; all integers are little-endian, `f16` is IEEE binary16. Every file has
//! `VALUES` and `BYTES` of a block, the byte offsets `.._OFF` of its fields, and `dequantize`, the meaning of a block in
//! f32. Kernels read the same offsets with wider loads; the host expands, and tests, with `dequantize`.
//!
//! All values but those of Q4_K and Q5_K are exact: a product of an 11-bit block scale, a scale of at most 7 bits and a
//! code of at most 7 has at most 24 significant bits (Q6_K 11 + 7 + 5, IQ4_XS 11 + 5 + 7). In Q4_K and Q5_K both products
//! are exact and their difference is rounded once. So every order of multiplication gives the same bits, and a value
//! rounded to f16 or bf16 afterwards is rounded at most twice, always in the same way.

use cuda_std::float;

pub mod grids;
pub mod il;
pub mod iq2_xs;
pub mod iq3_s;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod q3_k;
pub mod q4_k;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
pub mod q8_1;

/// Values of the 4-bit codes of IQ4_NL and IQ4_XS.
pub const KV: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// [`KV`] as little-endian words of four, for byte permutes.
pub const KV_WORDS: [u32; 4] = [0xbfad_9881, 0xf6ea_ddcf, 0x2619_0d01, 0x7159_4535];

/// Bytes of the packed 6-bit scales of Q3_K, Q4_K and Q5_K.
pub const PACKED_BYTES: usize = 12;

/// The f16 at byte `at` of a block.
#[inline(always)]
#[must_use]
pub fn half<const N: usize>(block: &[u8; N], at: usize) -> f32 {
    float::f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Half `i` of a byte: 0 the low four bits, 1 the high ones.
#[inline(always)]
#[must_use]
pub const fn nibble(byte: u8, i: usize) -> u8 {
    (byte >> (4 * i)) & 15
}

/// Scale and minimum, 0..=63 each, of sub-block `s` < 8 of Q4_K and Q5_K; their twelve bytes start at `at`.
///
/// The first four sub-blocks have the low six bits of bytes `s` and `s + 4`. The others have the halves of byte `s + 4`,
/// and their upper two bits are the top bits of the bytes of sub-block `s - 4`.
#[inline(always)]
#[must_use]
pub const fn scale_and_min<const N: usize>(block: &[u8; N], at: usize, s: usize) -> (u8, u8) {
    if s < 4 {
        (block[at + s] & 63, block[at + s + 4] & 63)
    } else {
        let (low, scale_top, min_top) = (block[at + s + 4], block[at + s - 4] >> 6, block[at + s] >> 6);
        (low & 15 | scale_top << 4, low >> 4 | min_top << 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_codebook_hold_its_bytes() {
        let bytes: Vec<i8> = KV_WORDS.iter().flat_map(|word| word.to_le_bytes()).map(u8::cast_signed).collect();
        assert_eq!(bytes, KV);
    }

    #[test]
    fn every_packed_scale_and_minimum_has_bits_of_its_own() {
        let mut seen = [0u8; PACKED_BYTES];
        for s in 0..8 {
            for bit in 0..6 {
                for which in 0..2 {
                    let reads = |packed: &[u8; PACKED_BYTES]| {
                        let (scale, min) = scale_and_min(packed, 0, s);
                        [scale, min][which] == 1 << bit && [min, scale][which] == 0
                    };
                    let all = (0..96).map(|i| (i / 8, 1u8 << (i % 8)));
                    let found: Vec<_> = all
                        .filter(|&(byte, mask)| {
                            let mut packed = [0; PACKED_BYTES];
                            packed[byte] = mask;
                            reads(&packed)
                        })
                        .collect();
                    assert_eq!(found.len(), 1, "sub-block {s}, bit {bit}");
                    seen[found[0].0] |= found[0].1;
                }
            }
        }
        assert_eq!(seen, [255; PACKED_BYTES]);
    }
}
