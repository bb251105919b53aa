//! The parts of a layer, a file each: weights, scratch memory, and the pass that reads like its formulas.

pub mod attention;
pub mod experts;
pub mod gdn;
pub mod mixer;
pub mod mlp;
pub mod ple;

use super::ModelError;
use super::rows::Rows;
use super::run::Run;
use super::weights::Matrix;
use crate::backend::{View, ViewMut};
use crate::ops::add::Add;
use crate::ops::dense_product::product;

/// `y = W x` for the tokens of the pass.
fn project(run: &Run<'_>, w: &Matrix, x: &View<'_, f32, 2>, mut y: ViewMut<'_, f32, 2>) -> Result<(), ModelError> {
    product(run.pick(), run.stream, &w.weights()?, x, &Add::Nothing, &mut y)?;
    Ok(())
}

/// Where a layer's half puts its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    /// Into a buffer of its own, for the mixer to write to the streams.
    Fresh,
    /// Added to the residual.
    Residual,
}

/// The last product of a half: to `y`, or added to it.
fn project_into(
    run: &Run<'_>,
    w: &Matrix,
    x: &View<'_, f32, 2>,
    into: Into,
    y: &mut Rows<f32>,
) -> Result<(), ModelError> {
    let add = if into == Into::Residual { Add::Itself } else { Add::Nothing };
    product(run.pick(), run.stream, &w.weights()?, x, &add, &mut y.first_mut(run.tokens)?)?;
    Ok(())
}
