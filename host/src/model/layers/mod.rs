//! The parts of a layer, a file each: weights, scratch memory, and the pass that reads like its formulas.

pub mod attention;
pub mod experts;
pub mod gdn;
pub mod mixer;
pub mod mlp;
pub mod ple;
pub mod qsa;

use super::ModelError;
pub use super::products::Into;
use super::products::products;
use super::rows::Rows;
use super::run::Run;
use super::weights::Matrix;
use crate::backend::{View, ViewMut};

/// `y = W x` for the tokens of the pass.
fn project(run: &Run<'_>, w: &Matrix, x: &View<'_, f32, 2>, y: ViewMut<'_, f32, 2>) -> Result<(), ModelError> {
    project_all(run, x, [(w, y)])
}

/// [`project`] by several matrices.
fn project_all<const N: usize>(
    run: &Run<'_>,
    x: &View<'_, f32, 2>,
    all: [(&Matrix, ViewMut<'_, f32, 2>); N],
) -> Result<(), ModelError> {
    products(run, x, all.map(|(w, y)| (w.segments(), Into::Fresh, y)))
}

/// The last product of a half: to `y`, or added to it.
fn project_into(
    run: &Run<'_>,
    w: &Matrix,
    x: &View<'_, f32, 2>,
    into: Into,
    y: &mut Rows<f32>,
) -> Result<(), ModelError> {
    products(run, x, [(w.segments(), into, y.first_mut(run.tokens)?)])
}
