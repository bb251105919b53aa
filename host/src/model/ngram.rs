//! The n-gram hash of PLE layers: its constants, and the table rows of a token. Exact integers.

/// Constants of one PLE layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NgramHash {
    /// One odd multiplier for each token of an n-gram, the current one first.
    pub multipliers: Vec<u64>,
    /// Table rows of each hash head, those of the 2-grams first.
    pub moduli: Vec<u64>,
    /// First table row of each hash head.
    pub offsets: Vec<u64>,
    /// The token that cuts n-grams, and stands for what is before the sequence.
    pub eos: u32,
}

/// The golden ratio's 64 bits: the step of the splitmix generator.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(v: u64) -> u64 {
    let v = v.wrapping_add(STEP);
    let v = (v ^ v >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let v = (v ^ v >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    v ^ v >> 31
}

fn is_prime(n: u64) -> bool {
    let odd = n == 2 || n > 2 && !n.is_multiple_of(2);
    odd && (3..).step_by(2).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

impl NgramHash {
    /// The constants of the `index`-th PLE layer of a model.
    #[must_use]
    pub fn derive(
        index: usize,
        ngram: usize,
        per_order: usize,
        vocab: usize,
        (seed, base): (u64, u64),
        eos: u32,
    ) -> Self {
        let heads = (ngram - 1) * per_order;
        let half = (i64::MAX.cast_unsigned() / vocab as u64 / 2).max(1);
        let start = seed.wrapping_add(10_007 * index as u64);
        let multiplier = |j: u64| 2 * (mix(start.wrapping_add(STEP.wrapping_mul(j + 1))) % half) + 1;
        let moduli: Vec<u64> = (base..).filter(|&n| is_prime(n)).skip(index * heads).take(heads).collect();
        let offsets = moduli.iter().scan(0, |sum, m| Some(std::mem::replace(sum, *sum + m))).collect();
        Self { multipliers: (0..ngram as u64).map(multiplier).collect(), moduli, offsets, eos }
    }

    /// Longest n-gram.
    #[must_use]
    pub fn ngram(&self) -> usize {
        self.multipliers.len()
    }

    /// Appends the table rows of each of `tokens`, `[tokens, heads]`, given the tokens before them (as many as an n-gram
    /// reaches back, or all there are, oldest first).
    pub fn rows(&self, before: &[u32], tokens: &[u32], out: &mut Vec<u64>) {
        let per_order = self.moduli.len() / (self.ngram() - 1);
        let at = |i: isize| -> u32 {
            // The token i places behind the first of `tokens`, or before it.
            let index = before.len().cast_signed() + i;
            let index = usize::try_from(index).ok();
            let token = index.and_then(|i| before.get(i).or_else(|| tokens.get(i.wrapping_sub(before.len()))));
            token.copied().unwrap_or(self.eos)
        };
        for t in 0..tokens.len().cast_signed() {
            let mut hash = u64::from(at(t)).wrapping_mul(self.multipliers[0]);
            let mut cut = false;
            for j in 1..self.ngram() {
                let token = at(t - j.cast_signed());
                cut |= token == self.eos;
                let token = if cut { self.eos } else { token };
                hash ^= u64::from(token).wrapping_mul(self.multipliers[j]);
                let heads = (j - 1) * per_order..j * per_order;
                out.extend(heads.map(|head| hash % self.moduli[head] + self.offsets[head]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The released model: vocabulary 248320, seed 1234, base 20,000,000, 8 heads an order, eos 248044.
    fn released() -> NgramHash {
        NgramHash::derive(0, 3, 8, 248_320, (1234, 20_000_000), 248_044)
    }

    #[test]
    fn the_released_constants_are_derived() {
        let hash = released();
        assert_eq!(hash.multipliers, [23_703_573_157_769, 20_109_073_645_365, 8_052_911_324_071]);
        assert_eq!(hash.moduli[..4], [20_000_003, 20_000_023, 20_000_033, 20_000_047]);
        assert_eq!((hash.moduli[15], hash.offsets[15]), (20_000_171, 300_001_275));
    }

    #[test]
    fn the_published_rows_are_found_however_the_sequence_is_cut() {
        let (hash, tokens) = (released(), [9707, 11, 1879, 248_044, 100, 200]);
        let published = [
            [16_410_909, 39_682_429, 169_641_436, 300_984_276],
            [18_158_303, 36_390_029, 175_132_467, 307_699_687],
            [6_380_558, 26_411_572, 164_226_950, 312_121_804],
            [18_827_606, 27_700_912, 163_793_416, 318_943_450],
            [5_727_835, 21_884_476, 162_363_667, 305_180_972],
            [6_669_481, 25_231_135, 164_675_732, 318_456_244],
        ];
        for cut in 0..=tokens.len() {
            let (first, rest) = tokens.split_at(cut);
            let mut rows = Vec::new();
            hash.rows(&[], first, &mut rows);
            hash.rows(&first[cut.saturating_sub(2)..], rest, &mut rows);
            for (t, wanted) in published.iter().enumerate() {
                let row = &rows[16 * t..16 * t + 16];
                assert_eq!([row[0], row[1], row[8], row[15]], *wanted, "token {t}, cut at {cut}");
            }
        }
    }
}
