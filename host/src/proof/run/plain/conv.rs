//! `conv.window`: the rows that a causal convolution leaves to the next call.

use std::fmt;
use std::ops::Range;

use super::operand::{Loaded, Matrix};
use super::{Case, Expected, Promised, Values, variants, works};
use crate::backend::Device;
use crate::ops::QuadSizes;
use crate::ops::conv_window::{CONV_WINDOW, WindowArgs, window};
use crate::ops::dispatch::Pick;
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};

/// Rows of the window, and channels.
#[derive(Clone, Copy)]
pub struct Width(usize, usize);

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.0, self.1)
    }
}

const WIDTHS: &[Width] = &[Width(9, 64), Width(3, 7), Width(1, 4), Width(3, 130), Width(9, 10240)];

struct Window {
    window: Matrix<f32>,
    x: Matrix<f32>,
}

impl Case for Window {
    fn names(&self) -> [&'static str; 2] {
        [CONV_WINDOW.op, CONV_WINDOW.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &CONV_WINDOW, &QuadSizes { rows: 1, width: 1, wide: false })
    }

    fn tokens(&self) -> usize {
        self.x.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, x) = (device.stream()?, Loaded::of(device, &self.x)?);
        let mut rows = Loaded::of(device, &self.window)?;
        for piece in pieces {
            let args = WindowArgs { window: rows.all_mut()?, x: x.view(piece)? };
            window(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("window", Values::F32(rows.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let all = self.window.values.iter().chain(&self.x.values);
        vec![Expected::Near(all.skip(self.x.values.len()).map(|&x| Near::exact(x)).collect())]
    }
}

/// `conv.window`.
pub const WINDOW: Operation = Operation {
    op: CONV_WINDOW.op,
    variants: || CONV_WINDOW.listed().1,
    works: |scale| {
        works(scale, WIDTHS, |call, Width(rows, width)| {
            let matrix = |operand, rows| Matrix::random(operand, call.layout, [rows, width], call.law);
            Window { window: matrix(0, rows), x: matrix(1, call.tokens) }
        })
    },
};
