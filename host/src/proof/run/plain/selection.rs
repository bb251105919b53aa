//! `qsa.scores` by what comes of it: cells are chosen from the scores of a variant that rounds in its own way and from the
//! base's, and nearly all of them must be the same.

use varve_gpu::qsa::most_cells;

use super::operand::{LAWS, Layout, Loaded};
use super::scores::{BUDGET, Scores, Window};
use crate::backend::{BackendError, Device};
use crate::ops::dispatch::Pick;
use crate::ops::exactness::Exactness;
use crate::ops::qsa_scores::{QSA_SCORES, ScoresSizes};
use crate::ops::qsa_topk::{TopkArgs, topk};
use crate::proof::compare;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::row::Row;
use crate::proof::run::{Context, Scale, Work};

/// Share of the chosen cells that may be others, over all queries.
const MOST_OTHERS: f64 = 0.001;
/// Cells of a row's list.
const CAP: usize = most_cells(BUDGET as usize);

impl Scores {
    /// The cells that dispatch's `qsa.topk` chooses from a variant's scores, [`CAP`] for each query.
    fn chosen(&self, context: &Context<'_>, device: &Device, variant: &str) -> Result<Vec<u32>, Flaw> {
        let (stream, queries) = (device.stream()?, self.window.tokens);
        let scores = device.upload(&self.scores(device, variant, std::slice::from_ref(&(0..queries)))?)?;
        let steps = Loaded::of(device, &self.steps)?;
        let mut ids = Loaded::blank(device, 0, Layout::Dense, [queries, CAP])?;
        let args = TopkArgs {
            scores: scores.view([queries, self.max_blocks]).map_err(BackendError::from)?,
            steps: steps.all()?,
            ids: ids.all_mut()?,
        };
        topk(Pick::Best(&context.dispatch), &stream, args)?;
        ids.read_any()
    }

    /// Share of the base's cells that another list lacks.
    fn others(&self, base: &[u32], got: &[u32]) -> f64 {
        let (mut all, mut lacking) = (0, 0);
        for (query, (base, got)) in base.chunks(CAP).zip(got.chunks(CAP)).enumerate() {
            let width = self.window.record(query).width as usize;
            all += width;
            lacking += base[..width].iter().filter(|&cell| got[..width].binary_search(cell).is_err()).count();
        }
        lacking as f64 / all as f64
    }
}

fn prove(context: &Context<'_>, name: &str, window: Window) -> Vec<Row> {
    let case = Scores::new(window);
    let sizes = ScoresSizes::on(context.device().caps(), window.tokens, case.max_blocks);
    let variants = context.variants(&QSA_SCORES, &sizes).into_iter();
    let rounding = variants.filter(|row| matches!(row.exactness, Exactness::Rounding { .. }));
    let base = QSA_SCORES.base().name;
    let check = |row: &mut Row| -> Result<(), Flaw> {
        let devices = context.devices.each(|device| Ok::<_, Flaw>(device.clone()))?;
        let wanted = case.chosen(context, &devices[0], base)?;
        for seed in 0..context.devices.seeds() {
            let got = case.chosen(context, &devices[seed % devices.len()], row.variant)?;
            row.check_bits("ids", false, compare::bits(&wanted, &got));
            let others = case.others(&wanted, &got);
            row.base_differs_by(others);
            if others > MOST_OTHERS {
                row.fail("ids", format!("{others:.2e} of the cells are others, allowed are {MOST_OTHERS:.0e}"));
            }
        }
        Ok(())
    };
    rounding.map(|row| context.row((QSA_SCORES.op, row.name, base), row.exactness, name, check)).collect()
}

/// Queries, and the cells that the last one sees.
fn window([queries, cells]: [usize; 2]) -> Window {
    let window = Window { tokens: queries, first: cells - queries, spare: 0, law: &LAWS[0], reach: 0 };
    Window { spare: (3 - window.last() % 4) % 4, ..window }
}

/// 256 queries at the depths that exactness.md speaks of; few for the emulator.
pub(super) fn works(scale: Scale) -> Vec<Work> {
    let sizes: &[[usize; 2]] = if scale.is_small() { &[[6, 4099]] } else { &[[256, 32_768], [256, 131_072]] };
    let work = |&[queries, cells]: &[usize; 2]| {
        let window = window([queries, cells]);
        Work::new(format!("selection/T={queries}/cells={cells}"), move |context, name| prove(context, name, window))
    };
    sizes.iter().map(work).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::EmulatorConfig;
    use crate::ops::dispatch::Dispatch;
    use crate::proof::run::Devices;

    /// Keys cut to four bits give more other cells than are allowed: the rows would show it.
    #[test]
    fn coarse_keys_choose_other_cells() {
        let devices = Devices::new(Device::emulator(EmulatorConfig::default()), 1, 0);
        let context =
            Context { devices: &devices, variant: None, dispatch: Dispatch::default(), skipped: Default::default() };
        let chosen = |case: &Scores| {
            let base = QSA_SCORES.base().name;
            case.chosen(&context, context.device(), base).unwrap_or_else(|flaw| panic!("{flaw}"))
        };
        let mut case = Scores::new(window([6, 4099]));
        let fine = chosen(&case);
        assert_eq!(case.others(&fine, &fine), 0.0);
        for key in &mut case.keys.values {
            *key = f32::from_bits(key.to_bits() & 0xfff0_0000);
        }
        let others = case.others(&fine, &chosen(&case));
        assert!((MOST_OTHERS..0.1).contains(&others), "{others}");
    }
}
