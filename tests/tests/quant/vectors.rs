//! Every format against blocks that gguf-py decoded: tests/golden/oracle/README.md.

use std::collections::BTreeSet;
use std::path::Path;

use half::f16;
use safetensors::SafeTensors;
use varve::model::{DType, is_readable, to_f32};
use varve_gpu::format::{grids, iq2_xs, iq3_s};

/// Bytes of the blocks of a type, and their values.
pub fn vectors(dtype: DType) -> Option<(Vec<u8>, Vec<f32>)> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = if built.exists() { built } else { Path::new("tests") };
    let bytes = std::fs::read(home.join("golden/oracle/quant_vectors.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let array = |what: &str| file.tensor(&format!("{dtype}.{what}")).ok().map(|tensor| tensor.data().to_vec());
    let values = array("values")?.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
    Some((array("blocks")?, values))
}

/// The block formats that are read.
pub fn block_types() -> Vec<DType> {
    DType::all().filter(|&dtype| is_readable(dtype) && dtype.block_len() > 1).collect()
}

pub fn expand(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let mut values = Vec::new();
    to_f32(dtype, bytes, &mut values);
    values
}

/// Representable numbers between the two, counted in units of the last place.
fn ulps(a: f32, b: f32) -> u32 {
    let place = |x: f32| if x.is_sign_negative() { -i64::from(x.abs().to_bits()) } else { i64::from(x.to_bits()) };
    u32::try_from(place(a).abs_diff(place(b))).unwrap_or(u32::MAX)
}

#[test]
fn blocks_stand_for_the_values_of_an_independent_decoder() {
    let types = block_types();
    assert_eq!(types.len(), 9, "{types:?}");
    for dtype in types {
        let (blocks, wanted) = vectors(dtype).unwrap_or_else(|| panic!("no vectors of {dtype}"));
        let got = expand(dtype, &blocks);
        assert_eq!(got.len(), wanted.len(), "{dtype}");
        let worst = got.iter().zip(&wanted).map(|(&got, &wanted)| ulps(got, wanted)).max().unwrap();
        println!("{dtype}: {} values within {worst} ulp", got.len());
        // All values but those of the affine formats are exact in every order of multiplication.
        let limit = if matches!(dtype, DType::Q4_K | DType::Q5_K) { 2 } else { 0 };
        assert!(worst <= limit, "{dtype}: {worst} ulp");
    }
    assert_eq!([ulps(1.0, -1.0) > 1000, ulps(0.0, -0.0) == 0, ulps(1.0, 1.0 + f32::EPSILON) == 1], [true; 3]);
}

/// Bits of f16, by way of f32 as kernels go, against the decoder's values rounded once.
#[test]
fn f16_results_are_those_of_the_exact_values() {
    for dtype in block_types().into_iter().filter(|dtype| !matches!(dtype, DType::Q4_K | DType::Q5_K)) {
        let (blocks, wanted) = vectors(dtype).unwrap();
        for (got, wanted) in expand(dtype, &blocks).into_iter().zip(wanted) {
            let bits = varve_gpu::format::half(&f16::from_f64(wanted.into()).to_le_bytes(), 0).to_bits();
            assert_eq!(f16::from_f32(got).to_f32().to_bits(), bits, "{dtype}: {got} and {wanted}");
        }
    }
}

/// Rows of the grids that occur in the vectors, read off the decoder's values.
#[test]
fn grid_rows_are_those_of_the_decoder() {
    let (blocks, values) = vectors(DType::IQ3_S).unwrap();
    let mut seen = BTreeSet::new();
    for (block, values) in blocks.as_chunks::<{ iq3_s::BYTES }>().0.iter().zip(values.chunks_exact(256)) {
        for (i, four) in values.chunks_exact(4).enumerate() {
            let scale = varve_gpu::format::half(block, iq3_s::D_OFF) * f32::from(iq3_s::scale(block, i / 8));
            let row = iq3_s::grid_row(block, i);
            let wanted = four.iter().map(|value| (value / scale).abs().round() as u8).collect::<Vec<_>>();
            assert_eq!(grids::IQ3_S[row].to_le_bytes()[..], wanted, "row {row}");
            seen.insert(row);
        }
    }
    assert!(seen.len() > 100, "{} rows of IQ3_S", seen.len());

    let (blocks, values) = vectors(DType::IQ2_XS).unwrap();
    seen.clear();
    for (block, values) in blocks.as_chunks::<{ iq2_xs::BYTES }>().0.iter().zip(values.chunks_exact(256)) {
        for (i, eight) in values.chunks_exact(8).enumerate() {
            let code = u16::from_le_bytes([block[iq2_xs::QS_OFF + 2 * i], block[iq2_xs::QS_OFF + 2 * i + 1]]);
            let (row, signs) = iq2_xs::grid_row_and_signs(code);
            let nib = f32::from(varve_gpu::format::nibble(block[iq2_xs::SCALES_OFF + i / 4], i / 2 % 2));
            let scale = varve_gpu::format::half(block, iq2_xs::D_OFF) * (0.5 + nib) * 0.25;
            for (j, value) in eight.iter().enumerate() {
                let wanted = (value / scale).round() as i32;
                let magnitude = i32::from(grids::IQ2_XS[row][j / 4].to_le_bytes()[j % 4]);
                assert_eq!(if signs >> j & 1 == 1 { -magnitude } else { magnitude }, wanted, "row {row}, value {j}");
            }
            seen.insert(row);
        }
    }
    assert!(seen.len() > 60, "{} rows of IQ2_XS", seen.len());
}
