//! `qsa.store`: every word of the cells, those that must not be written as well.

use std::fmt;
use std::ops::Range;

use varve_gpu::qsa::{HEAD_DIM, RATIO, WidthRule};

use super::operand::{Layout, Loaded, Matrix, rows, vector};
use super::{Case, Expected, Promised, Values, aligned_works, variants};
use crate::backend::{BackendError, Device};
use crate::ops::dispatch::Pick;
use crate::ops::qsa_cells::CellKind;
use crate::ops::qsa_steps::{WORDS, step_records};
use crate::ops::qsa_store::{QSA_STORE, StoreArgs, StoreSizes, store};
use crate::proof::cells::{CellValues, PageTable};
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};

/// Key heads, position of the first token, format, whether some cells are not in memory.
#[derive(Clone, Copy)]
pub struct Width(usize, usize, CellKind, bool);

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kv={}/first={}/{:?}{}", self.0, self.1, self.2, if self.3 { "/holes" } else { "" })
    }
}

const WIDTHS: &[Width] = &[
    Width(2, 6, CellKind::I8, false),
    Width(2, 0, CellKind::F16, false),
    Width(1, 3, CellKind::F32, false),
    Width(3, 9, CellKind::I8, true),
    Width(1, 6, CellKind::F16, true),
];

struct Store {
    width: Width,
    k: Matrix<f32>,
    v: Matrix<f32>,
    pages: PageTable,
}

impl Store {
    /// Of `x`, one row behind the other.
    fn stored(&self, x: &Matrix<f32>) -> Expected {
        let Width(kv_heads, first, kind, _) = self.width;
        let mut cells = CellValues::blank(kind, self.pages.pages * kv_heads * RATIO);
        for (t, head) in (0..x.rows).flat_map(|t| (0..kv_heads).map(move |head| (t, head))) {
            if let Some(row) = self.pages.row(first + t, head, kv_heads) {
                cells.put(row, &x.row(t)[head * HEAD_DIM..][..HEAD_DIM]);
            }
        }
        Expected::Words(cells.words())
    }
}

impl Case for Store {
    fn names(&self) -> [&'static str; 2] {
        [QSA_STORE.op, QSA_STORE.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &QSA_STORE, &StoreSizes { tokens: self.k.rows, kv_heads: self.width.0, kind: self.width.2 })
    }

    fn tokens(&self) -> usize {
        self.k.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, Width(kv_heads, first, kind, _)) = (device.stream()?, self.width);
        let (k, v) = (Loaded::of(device, &self.k)?, Loaded::of(device, &self.v)?);
        let (table, sizes) = (device.upload(&self.pages.table)?, [self.pages.pages, kv_heads]);
        let steps = device.upload(&step_records(first, self.k.rows, 2048, WidthRule::default()))?;
        let blank = CellValues::blank(kind, self.pages.pages * kv_heads * RATIO);
        let (mut k_cells, mut v_cells) = (blank.load(device)?, blank.load(device)?);
        for piece in pieces {
            let args = StoreArgs {
                k: k.view(piece)?,
                v: v.view(piece)?,
                steps: rows(&steps, piece, WORDS)?,
                k_cells: k_cells.rows_mut(sizes).map_err(BackendError::from)?,
                v_cells: v_cells.rows_mut(sizes).map_err(BackendError::from)?,
                table: vector(&table)?,
            };
            store(Pick::Named(variant), &stream, args)?;
        }
        let words = |cells: CellValues| Values::U32(cells.words());
        stream.synchronize()?;
        Ok(vec![("keys", words(k_cells.read()?)), ("values", words(v_cells.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        vec![self.stored(&self.k), self.stored(&self.v)]
    }
}

/// `qsa.store`; the last token's block is not in the table where cells are missing.
pub const STORE: Operation = Operation {
    op: QSA_STORE.op,
    variants: || QSA_STORE.listed().1,
    works: |scale| {
        aligned_works(scale, WIDTHS, |call, width| {
            let Width(kv_heads, first, _, holes) = width;
            let blocks = (first + call.tokens).div_ceil(RATIO) - usize::from(holes);
            let rows = |operand, layout| Matrix::random(operand, layout, [call.tokens, kv_heads * HEAD_DIM], call.law);
            Store {
                width,
                k: rows(0, call.layout),
                v: rows(1, if holes { Layout::Dense } else { call.layout }),
                pages: PageTable::permuted(blocks, holes),
            }
        })
    },
};
