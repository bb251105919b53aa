//! The order of value heads: files of Hugging Face group them by key head, kernels and GGUF files tile them.

/// For each position of the tiled order, the position in the grouped order: tiled head `j * key_heads + i` is grouped
/// head `i * per_key + j`; every head is `width` neighbouring positions, the first of them after `before` positions that
/// stay.
#[must_use]
pub fn tiled_heads(before: usize, key_heads: usize, value_heads: usize, width: usize) -> Vec<usize> {
    let per_key = value_heads / key_heads;
    let heads = (0..value_heads).map(|tiled| tiled % key_heads * per_key + tiled / key_heads);
    let values = heads.flat_map(|grouped| (0..width).map(move |i| before + grouped * width + i));
    (0..before).chain(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_its_key_head_by_the_remainder() {
        assert_eq!(tiled_heads(0, 2, 6, 1), [0, 3, 1, 4, 2, 5]);
        assert_eq!(tiled_heads(3, 2, 4, 2), [0, 1, 2, 3, 4, 7, 8, 5, 6, 9, 10]);
        for (tiled, &grouped) in tiled_heads(0, 16, 48, 1).iter().enumerate() {
            assert_eq!(tiled % 16, grouped / 3);
        }
        assert_eq!(tiled_heads(0, 4, 4, 1), [0, 1, 2, 3], "nothing moves where each key head has one value head");
    }
}
