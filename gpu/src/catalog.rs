//! Every kernel of the crate, a row each: its handle's data, the operation and variant it implements, and its budget.
//!
//! The budgets are upper limits that tests hold the compiled kernels to on every architecture they are assembled for.

use cuda_std::launch::KernelInfo;

use crate::attn::{norm_rope_warp, softmax_chunks};
use crate::conv::window_quad;
use crate::delta::{conv_warp, gated_norm_warp, gates_elem, window_commit, window_step};
use crate::delta::{
    out_norm_block, out_norm_warp, rec_chunk32_prep, rec_chunk32_scan, rec_chunk32_skew, rec_cols, rec_keyhead,
    rec_lanes, rec_tc32_prep, rec_tc32_scan, rec_wg32_fast_scan, rec_wg32_prep, rec_wg32_scan, rec_wg32_split,
    rec_wg32_split_join,
};
use crate::dense::{dequantize_narrow, dequantize_wide, embed_rows};
use crate::dense::{product_mma, product_mma_narrow, product_mma_split, product_rows, product_tile};
use crate::hyper::{expand_quad, mix_quad, squeeze_quad, write_quad};
use crate::mmvq::{Instance, fused, hoist, hoist_b3, hoist_b5, il, mma, plain, plain_slot, quantize, wide};
use crate::moe::{self, combine_quad, plan_block, router_warp, silu_mul_quad};
use crate::norm::rms_warp;
use crate::ple::{conv_quad, gate_warp};
use crate::qsa::{
    append_warp, attend_chunk, attend_merge, attend_prompt, scores_multi, scores_packed, scores_per_query, scores_rows,
    scores_scatter, scores_tf32x3, scores_tf32x3_tail, store_warp, topk_cluster, topk_ref, topk_reg, topk_split_count,
    topk_split_place, topk_wide,
};

/// A kernel instance.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// `op/variant`; the variant is also the end of the file's name.
    pub name: &'static str,
    /// Symbol, bounds, parameter type, source position.
    pub kernel: KernelInfo,
    /// Limits that the compiled kernel keeps.
    pub budget: Budget,
}

/// Limits of a compiled kernel. Spills and local memory are never allowed, so they have no number here.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Registers of a thread, on any architecture.
    pub registers: u32,
    /// Static shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Why these numbers.
    pub reason: &'static str,
}

const COLS: Budget = Budget {
    registers: 120,
    shared_bytes: 1_536,
    reason: "32 state and 32 k registers; 4 blocks an SM put 192 blocks on 48 SMs",
};
const WINDOW: Budget = Budget {
    registers: 176,
    shared_bytes: 9_856,
    reason: "64 state and 32 k registers; one warp a block, three an SM, so registers do not limit",
};
const COMMIT: Budget = Budget { registers: 200, shared_bytes: 9_856, reason: "as delta.rec/window" };
const NORM_BLOCK: Budget =
    Budget { registers: 24, shared_bytes: 16, reason: "12 blocks of 128 threads an SM: 1,536 of 2,048 threads" };
const NORM_WARP: Budget =
    Budget { registers: 40, shared_bytes: 0, reason: "6 blocks of 256 threads an SM: 1,536 of 2,048 threads" };

const KEYHEAD: Budget = Budget {
    registers: 254,
    shared_bytes: 29_184,
    reason: "32 VPK state and 32 k registers; two blocks an SM put 64 blocks on 32 SMs",
};
const LANES: Budget = Budget {
    registers: 248,
    shared_bytes: 34_560,
    reason: "64 state and twice 32 k registers; a block of up to 4 warps has its SM for itself",
};

const CHUNK32_PREP: Budget = Budget {
    registers: 80,
    shared_bytes: 44_544,
    reason: "a column of T in 32 registers; 3 blocks an SM hide the waits of the solve",
};
const CHUNK32_SCAN: Budget = Budget {
    registers: 168,
    shared_bytes: 0,
    reason: "32 sums, 16 state values and their operands; a block of 12 warps has its SM for itself",
};

const TC32_PREP: Budget = Budget {
    registers: 128,
    shared_bytes: 38_912,
    reason: "16 rows of 4 values under way; 4 blocks an SM hide the waits of the solve",
};
const TC32_SCAN: Budget = Budget {
    registers: 255,
    shared_bytes: 0,
    reason: "64 state values, 64 sums, f16 pairs of both; 8 warps share an SM",
};

const SPLIT_JOIN: Budget = Budget {
    registers: 128,
    shared_bytes: 4_096,
    reason: "16 rows of M under way, 32 values of S, 32 sums; 2 blocks an SM do for all its blocks",
};

const ELEMENTS: Budget = Budget { registers: 40, shared_bytes: 0, reason: "a thread an element, four or eight" };
const GROUPS: Budget =
    Budget { registers: 64, shared_bytes: 0, reason: "4 blocks of 256 threads an SM: half of its threads" };
const ROW_WARP: Budget =
    Budget { registers: 64, shared_bytes: 0, reason: "8 blocks of 4 warps an SM: half of its threads" };
const PRODUCT_ROWS: Budget = Budget {
    registers: 128,
    shared_bytes: 4_224,
    reason: "8 row addresses and 32 weights under way; 4 blocks an SM keep enough bytes in flight",
};
const PRODUCT_TILE: Budget = Budget {
    registers: 128,
    shared_bytes: 16_896,
    reason: "32 sums, 12 row addresses and their operands; 4 blocks an SM",
};
const PRODUCT_MMA: Budget = Budget {
    registers: 255,
    shared_bytes: 0,
    reason: "64 sums of a slice, 64 of all, 32 registers of fragments; 8 warps have their SM for themselves",
};
const PRODUCT_MMA_NARROW: Budget =
    Budget { registers: 168, shared_bytes: 0, reason: "32 sums and operands; 3 blocks an SM, as their stages allow" };
const PRODUCT_MMA_SPLIT: Budget =
    Budget { registers: 40, shared_bytes: 32, reason: "6 blocks of 256 threads an SM: 1,536 of 2,048 threads" };
const SOFTMAX: Budget =
    Budget { registers: 128, shared_bytes: 5_152, reason: "8 sums and the addresses of a lane; 4 blocks an SM" };
const ATTEND_MERGE: Budget =
    Budget { registers: 112, shared_bytes: 0, reason: "36 sums under way; 8 blocks of 2 warps an SM" };
const ATTEND_CHUNK: Budget = Budget {
    registers: 128,
    shared_bytes: 0,
    reason: "64 values of keys, 16 sums and a lane's pieces of values; 2 blocks of 8 warps an SM",
};
const ATTEND_PROMPT: Budget = Budget {
    registers: 168,
    shared_bytes: 16_384,
    reason: "32 sums, 32 registers of queries and up to 64 of a chunk's keys and values; 3 blocks of 4 warps an SM",
};
const QUAD: Budget =
    Budget { registers: 40, shared_bytes: 0, reason: "12 blocks of 128 threads an SM: 1,536 of 2,048 threads" };
const PLE: Budget = Budget {
    registers: 64,
    shared_bytes: 0,
    reason: "loads of several taps or quads under way; 8 blocks of 128 threads",
};
const ROUTER: Budget =
    Budget { registers: 64, shared_bytes: 0, reason: "up to 32 keys; 8 blocks of 128 threads an SM: 1,024 threads" };
const PLAN: Budget =
    Budget { registers: 40, shared_bytes: 40_960, reason: "one block; counts of 8 warps and 1,024 experts" };

const TOPK_REF: Budget = Budget { registers: 64, shared_bytes: 3_088, reason: "4 blocks of 256 threads an SM" };
const TOPK_BLOCK: Budget = Budget {
    registers: 64,
    shared_bytes: 34_048,
    reason: "a block of 1,024 threads has the registers of its SM for itself; counts of 32 warps",
};
const TOPK_SPLIT_COUNT: Budget =
    Budget { registers: 64, shared_bytes: 10_240, reason: "4 blocks of 256 threads an SM; counts of 8 warps" };
const TOPK_SPLIT_PLACE: Budget =
    Budget { registers: 64, shared_bytes: 2_112, reason: "4 blocks of 256 threads an SM; sums of a round" };
const TOPK_CLUSTER: Budget = Budget {
    registers: 80,
    shared_bytes: 18_576,
    reason: "a block of 512 threads has its SM for itself; counts of 16 warps, the keys are in dynamic shared memory",
};
const SCORES: Budget = Budget { registers: 40, shared_bytes: 0, reason: "as many warps as an SM has" };
const SCORES_MULTI: Budget =
    Budget { registers: 64, shared_bytes: 16_384, reason: "8 queries; 4 blocks of 8 warps an SM: half of its threads" };
const SCORES_SCATTER: Budget = Budget {
    registers: 80,
    shared_bytes: 16_384,
    reason: "8 queries; 8 key rows of a warp; 3 blocks of 8 warps an SM",
};
const SCORES_REGISTERS: Budget =
    Budget { registers: 128, shared_bytes: 0, reason: "4 queries and 8 key rows of a warp; 2 blocks of 8 warps an SM" };
const SCORES_PRODUCT: Budget =
    Budget { registers: 168, shared_bytes: 0, reason: "64 sums and their operands; 3 blocks of 4 warps an SM" };

const MMVQ_QUANTIZE: Budget =
    Budget { registers: 40, shared_bytes: 0, reason: "4 blocks of 256 threads an SM; a value a thread" };
const MMVQ_PLAIN: Budget =
    Budget { registers: 128, shared_bytes: 3_072, reason: "8 sums and a call's operands; 4 blocks an SM" };
const MMVQ_PLAIN_SLOT: Budget = Budget { registers: 128, shared_bytes: 0, reason: "as mmvq.product/plain" };
const MMVQ_IL: Budget =
    Budget { registers: 168, shared_bytes: 0, reason: "up to 32 sums and a call's operands; 3 blocks an SM" };
const MMVQ_HOIST: Budget =
    Budget { registers: 128, shared_bytes: 0, reason: "a group of 8 calls under way; 4 blocks an SM" };
const MMVQ_HOIST_B3: Budget =
    Budget { registers: 168, shared_bytes: 0, reason: "a group of 8 calls under way, 64 sums; 3 blocks an SM" };
const MMVQ_HOIST_B5: Budget =
    Budget { registers: 96, shared_bytes: 0, reason: "a group of 4 calls under way; 5 blocks an SM" };

/// Probes are not tuned; the limit only shows when one grows out of proportion.
const PROBE: Budget = Budget { registers: 64, shared_bytes: 16_384, reason: "small by construction" };
/// Those of products of a warpgroup, whose file has sm_90 to itself.
const PROBE_WGMMA: Budget = Budget {
    registers: 128,
    shared_bytes: 0,
    reason: "64 sums and 16 registers of A, or 32 sums and 64 of A; no moves",
};

/// Limits of `mmvq.product/fused`: a block has an SM, and fewer warps the more columns it has.
fn mmvq_fused(columns: usize) -> Budget {
    let registers = match columns {
        1 => 96,
        2 => 128,
        4 => 168,
        _ => 255,
    };
    Budget { registers, shared_bytes: 0, reason: "4 calls and their sums; an SM's registers for 20, 16, 12, 8 warps" }
}

/// A block has an SM; where a warp has one unit, its bounds of 24 warps leave 80.
const MMVQ_MMA: Budget =
    Budget { registers: 128, shared_bytes: 0, reason: "the vectors of up to three units of a warp; 16 warps an SM" };

/// Bounds of 24 warps leave 80, those of two blocks of 20 warps 48.
const MMVQ_WIDE: Budget = Budget { registers: 80, shared_bytes: 0, reason: "64 values of a row and of the vector" };

/// Every kernel, family by family.
pub fn entries() -> Vec<Entry> {
    let entry = |name, kernel, budget| Entry { name, kernel, budget };
    let mut all = vec![
        entry("delta.rec/cols", rec_cols::DELTA_REC_COLS.info(), COLS),
        entry("delta.rec/keyhead", rec_keyhead::DELTA_REC_KEYHEAD_VPK1.info(), KEYHEAD),
        entry("delta.rec/keyhead", rec_keyhead::DELTA_REC_KEYHEAD_VPK2.info(), KEYHEAD),
        entry("delta.rec/keyhead", rec_keyhead::DELTA_REC_KEYHEAD_VPK3.info(), KEYHEAD),
        entry("delta.rec/keyhead", rec_keyhead::DELTA_REC_KEYHEAD_VPK4.info(), KEYHEAD),
        entry("delta.rec/lanes", rec_lanes::DELTA_REC_LANES_VPK2.info(), LANES),
        entry("delta.rec/lanes", rec_lanes::DELTA_REC_LANES_VPK3.info(), LANES),
        entry("delta.rec/lanes", rec_lanes::DELTA_REC_LANES_VPK4.info(), LANES),
        entry("delta.rec/chunk32", rec_chunk32_prep::DELTA_REC_CHUNK32_PREP.info(), CHUNK32_PREP),
        entry("delta.rec/chunk32", rec_chunk32_scan::DELTA_REC_CHUNK32_SCAN_VPK1.info(), CHUNK32_SCAN),
        entry("delta.rec/chunk32", rec_chunk32_scan::DELTA_REC_CHUNK32_SCAN_VPK2.info(), CHUNK32_SCAN),
        entry("delta.rec/chunk32", rec_chunk32_scan::DELTA_REC_CHUNK32_SCAN_VPK3.info(), CHUNK32_SCAN),
        entry("delta.rec/chunk32", rec_chunk32_scan::DELTA_REC_CHUNK32_SCAN_VPK4.info(), CHUNK32_SCAN),
        entry("delta.rec/chunk32_skew", rec_chunk32_skew::DELTA_REC_CHUNK32_SKEW_VPK3.info(), CHUNK32_SCAN),
        entry("delta.rec/tc32", rec_tc32_prep::DELTA_REC_TC32_PREP.info(), TC32_PREP),
        entry("delta.rec/tc32_fast", rec_tc32_prep::DELTA_REC_TC32_FAST_PREP.info(), TC32_PREP),
        entry("delta.rec/tc32", rec_tc32_scan::DELTA_REC_TC32_SCAN.info(), TC32_SCAN),
        entry("delta.rec/tc32_fast", rec_tc32_scan::DELTA_REC_TC32_FAST_SCAN.info(), TC32_SCAN),
        entry("delta.rec/wg32", rec_wg32_prep::DELTA_REC_WG32_PREP.info(), TC32_PREP),
        entry("delta.rec/wg32_fast", rec_wg32_prep::DELTA_REC_WG32_FAST_PREP.info(), TC32_PREP),
        entry("delta.rec/wg32", rec_wg32_scan::DELTA_REC_WG32_SCAN.info(), TC32_SCAN),
        entry("delta.rec/wg32_fast", rec_wg32_fast_scan::DELTA_REC_WG32_FAST_SCAN.info(), TC32_SCAN),
        entry("delta.rec/wg32_split", rec_wg32_split::DELTA_REC_WG32_SPLIT_ENDS.info(), TC32_SCAN),
        entry("delta.rec/wg32_split", rec_wg32_split::DELTA_REC_WG32_SPLIT_OUTPUTS.info(), TC32_SCAN),
        entry("delta.rec/wg32_split", rec_wg32_split_join::DELTA_REC_WG32_SPLIT_JOIN.info(), SPLIT_JOIN),
        entry("delta.rec/window", window_step::DELTA_REC_WINDOW.info(), WINDOW),
        entry("delta.commit/window", window_commit::DELTA_COMMIT_WINDOW.info(), COMMIT),
        entry("delta.out_norm/block", out_norm_block::DELTA_OUT_NORM_BLOCK_SIGMOID.info(), NORM_BLOCK),
        entry("delta.out_norm/block", out_norm_block::DELTA_OUT_NORM_BLOCK_SILU.info(), NORM_BLOCK),
        entry("delta.out_norm/warp", out_norm_warp::DELTA_OUT_NORM_WARP_SIGMOID.info(), NORM_WARP),
        entry("delta.out_norm/warp", out_norm_warp::DELTA_OUT_NORM_WARP_SILU.info(), NORM_WARP),
        entry("dense.embed/rows", embed_rows::DENSE_EMBED_ROWS_F32.info(), ELEMENTS),
        entry("dense.embed/rows", embed_rows::DENSE_EMBED_ROWS_F16.info(), ELEMENTS),
        entry("dense.embed/rows", embed_rows::DENSE_EMBED_ROWS_BF16.info(), ELEMENTS),
        entry("dense.embed/rows", embed_rows::DENSE_EMBED_ROWS_BLOCKS.info(), ELEMENTS),
        entry("dense.dequantize/wide", dequantize_wide::DENSE_DEQUANTIZE_WIDE.info(), ELEMENTS),
        entry("dense.dequantize/narrow", dequantize_narrow::DENSE_DEQUANTIZE_NARROW.info(), GROUPS),
        entry("dense.product/mma", product_mma_split::DENSE_PRODUCT_MMA_SPLIT_F16.info(), PRODUCT_MMA_SPLIT),
        entry("dense.product/mma", product_mma_split::DENSE_PRODUCT_MMA_SPLIT_BF16.info(), PRODUCT_MMA_SPLIT),
        entry("dense.product/mma", product_mma::DENSE_PRODUCT_MMA_F16.info(), PRODUCT_MMA),
        entry("dense.product/mma", product_mma::DENSE_PRODUCT_MMA_BF16.info(), PRODUCT_MMA),
        entry("dense.product/mma_narrow", product_mma_narrow::DENSE_PRODUCT_MMA_NARROW_F16.info(), PRODUCT_MMA_NARROW),
        entry("dense.product/mma_narrow", product_mma_narrow::DENSE_PRODUCT_MMA_NARROW_BF16.info(), PRODUCT_MMA_NARROW),
        entry("dense.product/rows8", product_rows::DENSE_PRODUCT_ROWS8_F32.info(), PRODUCT_ROWS),
        entry("dense.product/rows8", product_rows::DENSE_PRODUCT_ROWS8_F16.info(), PRODUCT_ROWS),
        entry("dense.product/rows8", product_rows::DENSE_PRODUCT_ROWS8_BF16.info(), PRODUCT_ROWS),
        entry("dense.product/rows2", product_rows::DENSE_PRODUCT_ROWS2_F32.info(), PRODUCT_ROWS),
        entry("dense.product/rows2", product_rows::DENSE_PRODUCT_ROWS2_F16.info(), PRODUCT_ROWS),
        entry("dense.product/rows2", product_rows::DENSE_PRODUCT_ROWS2_BF16.info(), PRODUCT_ROWS),
        entry("dense.product/tile", product_tile::DENSE_PRODUCT_TILE_F32.info(), PRODUCT_TILE),
        entry("dense.product/tile", product_tile::DENSE_PRODUCT_TILE_F16.info(), PRODUCT_TILE),
        entry("dense.product/tile", product_tile::DENSE_PRODUCT_TILE_BF16.info(), PRODUCT_TILE),
        entry("norm.rms/warp", rms_warp::NORM_RMS_WARP.info(), ROW_WARP),
        entry("attn.norm_rope/warp", norm_rope_warp::ATTN_NORM_ROPE_WARP.info(), ROW_WARP),
        entry("attn.softmax/chunks", softmax_chunks::ATTN_SOFTMAX_CHUNKS.info(), SOFTMAX),
        entry("delta.conv/warp", conv_warp::DELTA_CONV_WARP.info(), ROW_WARP),
        entry("delta.gates/elem", gates_elem::DELTA_GATES_ELEM.info(), ELEMENTS),
        entry("delta.gated_norm/warp", gated_norm_warp::DELTA_GATED_NORM_WARP_SIGMOID.info(), ROW_WARP),
        entry("delta.gated_norm/warp", gated_norm_warp::DELTA_GATED_NORM_WARP_SILU.info(), ROW_WARP),
        entry("qsa.append/warp", append_warp::QSA_APPEND_WARP.info(), ROW_WARP),
        entry("qsa.scores/per_query", scores_per_query::QSA_SCORES_PER_QUERY.info(), SCORES),
        entry("qsa.scores/multi", scores_multi::QSA_SCORES_MULTI.info(), SCORES_MULTI),
        entry("qsa.scores/scatter", scores_scatter::QSA_SCORES_SCATTER.info(), SCORES_SCATTER),
        entry("qsa.scores/rows", scores_rows::QSA_SCORES_ROWS_NQ1.info(), SCORES_REGISTERS),
        entry("qsa.scores/rows", scores_rows::QSA_SCORES_ROWS_NQ2.info(), SCORES_REGISTERS),
        entry("qsa.scores/rows", scores_rows::QSA_SCORES_ROWS_NQ3.info(), SCORES_REGISTERS),
        entry("qsa.scores/rows", scores_rows::QSA_SCORES_ROWS_NQ4.info(), SCORES_REGISTERS),
        entry("qsa.scores/packed", scores_packed::QSA_SCORES_PACKED_NQ1.info(), SCORES_REGISTERS),
        entry("qsa.scores/packed", scores_packed::QSA_SCORES_PACKED_NQ2.info(), SCORES_REGISTERS),
        entry("qsa.scores/packed", scores_packed::QSA_SCORES_PACKED_NQ4.info(), SCORES_REGISTERS),
        entry("qsa.scores/tf32x3", scores_tf32x3::QSA_SCORES_TF32X3.info(), SCORES_PRODUCT),
        entry("qsa.scores/tf32x3", scores_tf32x3_tail::QSA_SCORES_TF32X3_TAIL.info(), SCORES),
        entry("qsa.topk/cluster", topk_cluster::QSA_TOPK_CLUSTER.info(), TOPK_CLUSTER),
        entry("qsa.topk/split", topk_split_count::QSA_TOPK_SPLIT_COUNT.info(), TOPK_SPLIT_COUNT),
        entry("qsa.topk/split", topk_split_place::QSA_TOPK_SPLIT_PLACE.info(), TOPK_SPLIT_PLACE),
        entry("qsa.topk/reg", topk_reg::QSA_TOPK_REG.info(), TOPK_BLOCK),
        entry("qsa.topk/wide", topk_wide::QSA_TOPK_WIDE.info(), TOPK_BLOCK),
        entry("qsa.topk/ref", topk_ref::QSA_TOPK_REF.info(), TOPK_REF),
        entry("qsa.store/warp", store_warp::QSA_STORE_WARP_F32.info(), ROW_WARP),
        entry("qsa.store/warp", store_warp::QSA_STORE_WARP_F16.info(), ROW_WARP),
        entry("qsa.store/warp", store_warp::QSA_STORE_WARP_I8.info(), ROW_WARP),
        entry("qsa.attend/chunk", attend_chunk::QSA_ATTEND_CHUNK_F32_G4.info(), ATTEND_CHUNK),
        entry("qsa.attend/chunk", attend_chunk::QSA_ATTEND_CHUNK_F32_G16.info(), ATTEND_CHUNK),
        entry("qsa.attend/chunk", attend_chunk::QSA_ATTEND_CHUNK_F16_G4.info(), ATTEND_CHUNK),
        entry("qsa.attend/chunk", attend_chunk::QSA_ATTEND_CHUNK_F16_G12.info(), ATTEND_CHUNK),
        entry("qsa.attend/chunk", attend_chunk::QSA_ATTEND_CHUNK_F16_G16.info(), ATTEND_CHUNK),
        entry("qsa.attend/chunk", attend_chunk::QSA_ATTEND_CHUNK_I8_G4.info(), ATTEND_CHUNK),
        entry("qsa.attend/chunk", attend_chunk::QSA_ATTEND_CHUNK_I8_G12.info(), ATTEND_CHUNK),
        entry("qsa.attend/chunk", attend_chunk::QSA_ATTEND_CHUNK_I8_G16.info(), ATTEND_CHUNK),
        entry("qsa.attend/chunk", attend_merge::QSA_ATTEND_CHUNK_MERGE.info(), ATTEND_MERGE),
        entry("qsa.attend/early", attend_chunk::QSA_ATTEND_EARLY_F16_G4.info(), ATTEND_CHUNK),
        entry("qsa.attend/early", attend_chunk::QSA_ATTEND_EARLY_F16_G12.info(), ATTEND_CHUNK),
        entry("qsa.attend/early", attend_chunk::QSA_ATTEND_EARLY_F16_G16.info(), ATTEND_CHUNK),
        entry("qsa.attend/early", attend_chunk::QSA_ATTEND_EARLY_I8_G4.info(), ATTEND_CHUNK),
        entry("qsa.attend/early", attend_chunk::QSA_ATTEND_EARLY_I8_G12.info(), ATTEND_CHUNK),
        entry("qsa.attend/early", attend_chunk::QSA_ATTEND_EARLY_I8_G16.info(), ATTEND_CHUNK),
        entry("qsa.attend/early", attend_merge::QSA_ATTEND_EARLY_MERGE.info(), ATTEND_MERGE),
        entry("qsa.attend/prompt", attend_prompt::QSA_ATTEND_PROMPT_F16.info(), ATTEND_PROMPT),
        entry("qsa.attend/prompt", attend_prompt::QSA_ATTEND_PROMPT_I8.info(), ATTEND_PROMPT),
        entry("hyper.expand/quad", expand_quad::HYPER_EXPAND_QUAD_WIDE.info(), QUAD),
        entry("hyper.expand/quad", expand_quad::HYPER_EXPAND_QUAD_NARROW.info(), QUAD),
        entry("hyper.squeeze/quad", squeeze_quad::HYPER_SQUEEZE_QUAD_WIDE.info(), QUAD),
        entry("hyper.squeeze/quad", squeeze_quad::HYPER_SQUEEZE_QUAD_NARROW.info(), QUAD),
        entry("hyper.mix/quad", mix_quad::HYPER_MIX_QUAD_WIDE.info(), QUAD),
        entry("hyper.mix/quad", mix_quad::HYPER_MIX_QUAD_NARROW.info(), QUAD),
        entry("hyper.write/quad", write_quad::HYPER_WRITE_QUAD_WIDE.info(), QUAD),
        entry("hyper.write/quad", write_quad::HYPER_WRITE_QUAD_NARROW.info(), QUAD),
        entry("ple.conv/quad", conv_quad::PLE_CONV_QUAD_WIDE.info(), PLE),
        entry("ple.conv/quad", conv_quad::PLE_CONV_QUAD_NARROW.info(), PLE),
        entry("conv.window/quad", window_quad::CONV_WINDOW_QUAD_WIDE.info(), QUAD),
        entry("conv.window/quad", window_quad::CONV_WINDOW_QUAD_NARROW.info(), QUAD),
        entry("moe.silu_mul/quad", silu_mul_quad::MOE_SILU_MUL_QUAD_WIDE.info(), QUAD),
        entry("moe.silu_mul/quad", silu_mul_quad::MOE_SILU_MUL_QUAD_NARROW.info(), QUAD),
        entry("moe.combine/quad", combine_quad::MOE_COMBINE_QUAD_WIDE.info(), QUAD),
        entry("moe.combine/quad", combine_quad::MOE_COMBINE_QUAD_NARROW.info(), QUAD),
        entry("ple.gate/warp", gate_warp::PLE_GATE_WARP_WIDE.info(), PLE),
        entry("ple.gate/warp", gate_warp::PLE_GATE_WARP_NARROW.info(), PLE),
        entry("mmvq.quantize/warp", quantize::MMVQ_QUANTIZE_WARP.info(), MMVQ_QUANTIZE),
        entry("mmvq.quantize/warp", quantize::MMVQ_QUANTIZE_WARP_IL.info(), MMVQ_QUANTIZE),
        entry("moe.router/warp", router_warp::MOE_ROUTER_WARP_E128.info(), ROUTER),
        entry("moe.router/warp", router_warp::MOE_ROUTER_WARP_E256.info(), ROUTER),
        entry("moe.router/warp", router_warp::MOE_ROUTER_WARP_E512.info(), ROUTER),
        entry("moe.router/warp", router_warp::MOE_ROUTER_WARP_E1024.info(), ROUTER),
        entry("moe.plan/block", plan_block::MOE_PLAN_BLOCK.info(), PLAN),
        entry("moe.product/pair", moe::product_pair::MOE_PRODUCT_PAIR_F32.info(), PRODUCT_ROWS),
        entry("moe.product/pair", moe::product_pair::MOE_PRODUCT_PAIR_F16.info(), PRODUCT_ROWS),
        entry("moe.product/pair", moe::product_pair::MOE_PRODUCT_PAIR_BF16.info(), PRODUCT_ROWS),
        entry("moe.product/pair", moe::product_pair::MOE_PRODUCT_PAIR_BLOCKS.info(), PRODUCT_ROWS),
        entry("moe.product/tile", moe::product_tile::MOE_PRODUCT_TILE_F32.info(), PRODUCT_TILE),
        entry("moe.product/tile", moe::product_tile::MOE_PRODUCT_TILE_F16.info(), PRODUCT_TILE),
        entry("moe.product/tile", moe::product_tile::MOE_PRODUCT_TILE_BF16.info(), PRODUCT_TILE),
        entry("moe.product/tile", moe::product_tile::MOE_PRODUCT_TILE_BLOCKS.info(), PRODUCT_TILE),
    ];
    let products = |all: &mut Vec<Entry>, instances: &[Instance], names: [&'static str; 3], budget| {
        let name = |rows: usize| names[rows.ilog2() as usize];
        all.extend(instances.iter().map(|instance| entry(name(instance.rows), instance.kernel.info(), budget)));
    };
    let plain_name = ["mmvq.product/plain"; 3];
    products(&mut all, plain::INSTANCES, plain_name, MMVQ_PLAIN);
    products(&mut all, plain_slot::INSTANCES, plain_name, MMVQ_PLAIN_SLOT);
    products(&mut all, il::INSTANCES, ["mmvq.product/il_r1", "mmvq.product/il_r2", "mmvq.product/il_r4"], MMVQ_IL);
    products(&mut all, hoist::INSTANCES, ["", "mmvq.product/hoist_b4_r2", ""], MMVQ_HOIST);
    products(&mut all, hoist_b3::INSTANCES, ["", "mmvq.product/hoist_b3_r2", ""], MMVQ_HOIST_B3);
    for instance in fused::ALL.into_iter().flatten() {
        all.push(entry("mmvq.product/fused", instance.kernel.info(), mmvq_fused(instance.columns)));
    }
    for instance in mma::INSTANCES {
        all.push(entry("mmvq.product/mma", instance.kernel.info(), MMVQ_MMA));
    }
    products(&mut all, wide::INSTANCES, ["mmvq.product/wide"; 3], MMVQ_WIDE);
    products(
        &mut all,
        hoist_b5::INSTANCES,
        ["mmvq.product/hoist_b5_r1", "mmvq.product/hoist_b5_r2", ""],
        MMVQ_HOIST_B5,
    );
    let budget = |sm| if sm >= 90 { PROBE_WGMMA } else { PROBE };
    all.extend(crate::probe::KERNELS.iter().map(|&kernel| entry("probe", kernel, budget(kernel.sm))));
    all
}
