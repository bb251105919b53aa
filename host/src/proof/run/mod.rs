//! Holds every variant of every operation to its promise: the runner behind `varve parity` and the parity tests.
//!
//! A [`Work`] is one case of one operation: it computes the FP64 reference once, runs the base once, then every variant
//! that can run, once for each seed (another schedule on the emulator, another run on a card), and gives a [`Row`] a
//! variant. A new variant is covered by being in its operation's table; a new operation by a line in [`OPERATIONS`].

mod delta_commit;
mod delta_out_norm;
mod delta_rec;
mod devices;
mod judge;
mod loaded;
mod plain;
mod row;

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::Serialize;

use crate::backend::Device;
use crate::ops::dispatch::{Dispatch, Reason, Table, Variant};
use crate::ops::exactness::Exactness;
use crate::ops::switches::Switches;

use loaded::Flaw;

pub use devices::Devices;
pub use row::{Errors, Row};

/// An operation that can be proved.
pub struct Operation {
    /// Name, family first: `delta.rec`.
    pub op: &'static str,
    /// Names of its variants, most wanted first.
    pub variants: fn() -> Vec<&'static str>,
    works: fn(Scale) -> Vec<Work>,
}

impl Operation {
    /// The part of the name before the dot.
    #[must_use]
    pub fn family(&self) -> &'static str {
        self.op.split('.').next().unwrap_or(self.op)
    }
}

/// Every operation.
pub static OPERATIONS: &[Operation] = &[
    Operation { op: "delta.rec", variants: || crate::ops::delta_rec::DELTA_REC.listed().1, works: delta_rec::works },
    Operation {
        op: "delta.commit",
        variants: || crate::ops::delta_commit::DELTA_COMMIT.listed().1,
        works: delta_commit::works,
    },
    Operation {
        op: "delta.out_norm",
        variants: || crate::ops::delta_out_norm::DELTA_OUT_NORM.listed().1,
        works: delta_out_norm::works,
    },
    plain::delta::CONV,
    plain::delta::GATES,
    plain::norm::GATED_NORM,
    plain::dequantize::DEQUANTIZE,
    plain::dense::EMBED,
    plain::dense::PRODUCT,
    plain::norm::RMS,
    plain::norm::NORM_ROPE,
    plain::attn::SOFTMAX,
    plain::qsa_append::APPEND,
    plain::scores::SCORES,
    plain::topk::TOPK,
    plain::cells::STORE,
    plain::attend::ATTEND,
    plain::hyper::EXPAND,
    plain::hyper::SQUEEZE,
    plain::hyper::MIX,
    plain::hyper::WRITE,
    plain::ple::GATE,
    plain::ple::CONV,
    plain::conv::WINDOW,
    plain::routing::ROUTER,
    plain::routing::PLAN,
    plain::mmvq::QUANTIZE,
    plain::mmvq::PRODUCT,
    plain::experts::PRODUCT,
    plain::moe::SILU_MUL,
    plain::moe::COMBINE,
];

/// How large the cases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A few heads and at most 257 tokens: for the emulator.
    Small,
    /// As `Small`, with the whole list of chunked variants.
    Thorough,
    /// 16 key heads, 48 value heads, up to 4,099 tokens: for a card.
    Full,
    /// As `Full`, with every stress input at 32,768 tokens too.
    Long,
}

impl Scale {
    /// Whether cases are of a size for the emulator.
    #[must_use]
    pub fn is_small(self) -> bool {
        matches!(self, Self::Small | Self::Thorough)
    }
}

/// Which part of the work to do; an empty field is no restriction.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Family, as in `delta`.
    pub family: Option<String>,
    /// Operation, as in `delta.rec`.
    pub op: Option<String>,
    /// Variant, as in `keyhead`.
    pub variant: Option<String>,
    /// Part of a case's name.
    pub case: Option<String>,
    /// What dispatch may choose where a case leaves the choice to it.
    pub switches: Switches,
}

/// A selection that selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {kind} `{name}`; there are {known}")]
pub struct Unknown {
    kind: &'static str,
    name: String,
    known: String,
}

impl Selection {
    /// The selected operations, in order.
    ///
    /// # Errors
    /// [`Unknown`] lists what there is for the first field that names nothing.
    pub fn operations(&self) -> Result<Vec<&'static Operation>, Unknown> {
        let all: Vec<_> = OPERATIONS.iter().collect();
        let all = narrow("family", self.family.as_deref(), all, |o| vec![o.family()])?;
        let all = narrow("operation", self.op.as_deref(), all, |o| vec![o.op])?;
        narrow("variant", self.variant.as_deref(), all, |o| (o.variants)())
    }
}

fn narrow(
    kind: &'static str,
    name: Option<&str>,
    from: Vec<&'static Operation>,
    names: impl Fn(&Operation) -> Vec<&'static str>,
) -> Result<Vec<&'static Operation>, Unknown> {
    let Some(name) = name else { return Ok(from) };
    let known: BTreeSet<_> = from.iter().flat_map(|operation| names(operation)).collect();
    if !known.contains(name) {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Unknown { kind, name: name.to_owned(), known });
    }
    Ok(from.into_iter().filter(|operation| names(operation).contains(&name)).collect())
}

/// Runs a case, whose name it is given, and makes its rows.
type Prove = dyn Fn(&Context<'_>, &str) -> Vec<Row>;

/// One case of one operation.
struct Work {
    case: String,
    run: Box<Prove>,
}

impl Work {
    fn new(case: impl Into<String>, run: impl Fn(&Context<'_>, &str) -> Vec<Row> + 'static) -> Self {
        Self { case: case.into(), run: Box::new(run) }
    }
}

/// What a case needs to know while it runs.
struct Context<'a> {
    devices: &'a Devices,
    variant: Option<&'a str>,
    dispatch: Dispatch,
    skipped: RefCell<BTreeSet<Skipped>>,
}

impl Context<'_> {
    fn device(&self) -> &Device {
        self.devices.first()
    }

    fn wants(&self, variant: &str) -> bool {
        self.variant.is_none_or(|wanted| wanted == variant)
    }

    /// The row of a variant, as `check` leaves it; `names` are those of operation, variant and what it is compared with.
    fn row(
        &self,
        names: (&'static str, &'static str, &'static str),
        exactness: Exactness,
        case: &str,
        check: impl FnOnce(&mut Row) -> Result<(), Flaw>,
    ) -> Row {
        let mut row = Row::new(names, exactness, case, self.device().spec(), self.devices.seeds());
        if let Err(flaw) = check(&mut row) {
            row.bit_equal = false;
            row.fail("", flaw);
        }
        row
    }

    /// The wanted variants that can run for these sizes. One that the device is too old for is noted as skipped; one that
    /// has no instance for the sizes is simply not meant for this case.
    fn variants<A, P: Copy>(&self, table: &'static Table<A, P>, ask: &A) -> Vec<&'static Variant<A, P>> {
        let runs = |row: &&'static Variant<A, P>| match table.launch_of(row, self.device().caps(), ask) {
            Ok(_) => true,
            Err(Reason::Sizes(_)) => false,
            Err(reason) => {
                let skipped = Skipped { op: table.op, variant: row.name, reason: reason.to_string() };
                self.skipped.borrow_mut().insert(skipped);
                false
            }
        };
        table.rows.iter().filter(|row| self.wants(row.name)).filter(runs).collect()
    }
}

/// A variant that this device cannot run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Skipped {
    /// Operation.
    pub op: &'static str,
    /// Variant.
    pub variant: &'static str,
    /// Why.
    pub reason: String,
}

/// What came of it all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Rows given.
    pub rows: usize,
    /// Rows that did not pass.
    pub failures: usize,
    /// Variants that had no row because the device cannot run them.
    pub skipped: Vec<Skipped>,
}

/// What happens during a run.
pub enum Event {
    /// So many cases lie ahead.
    Planned(usize),
    /// A case begins.
    Case {
        /// Operation.
        op: &'static str,
        /// The case's name.
        case: String,
    },
    /// A result.
    Row(Box<Row>),
}

/// Proves what is selected, telling `on` what happens.
///
/// # Errors
/// [`Unknown`] where the selection names nothing, cases included.
pub fn run(
    selection: &Selection,
    devices: &Devices,
    scale: Scale,
    on: &mut dyn FnMut(Event),
) -> Result<Summary, Unknown> {
    let operations = selection.operations()?;
    let wanted = |work: &Work| selection.case.as_ref().is_none_or(|part| work.case.contains(part.as_str()));
    let works: Vec<_> = operations.iter().flat_map(|o| (o.works)(scale).into_iter().map(|work| (o.op, work))).collect();
    let cases: BTreeSet<_> = works.iter().map(|(_, work)| work.case.clone()).collect();
    let works: Vec<_> = works.into_iter().filter(|(_, work)| wanted(work)).collect();
    if works.is_empty() {
        let known = cases.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Unknown { kind: "case with", name: selection.case.clone().unwrap_or_default(), known });
    }
    on(Event::Planned(works.len()));
    let context = Context {
        devices,
        variant: selection.variant.as_deref(),
        dispatch: Dispatch::new(selection.switches.clone()),
        skipped: RefCell::default(),
    };
    let mut summary = Summary::default();
    for (op, work) in works {
        on(Event::Case { op, case: work.case.clone() });
        for row in (work.run)(&context, &work.case) {
            summary.rows += 1;
            summary.failures += usize::from(!row.pass);
            on(Event::Row(Box::new(row)));
        }
    }
    summary.skipped = context.skipped.into_inner().into_iter().collect();
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(family: &str, op: &str, variant: &str) -> Result<Vec<&'static str>, String> {
        let field = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let selection =
            Selection { family: field(family), op: field(op), variant: field(variant), ..Selection::default() };
        let operations = selection.operations().map_err(|error| error.to_string())?;
        Ok(operations.iter().map(|operation| operation.op).collect())
    }

    #[test]
    fn selections_narrow_and_unknown_names_are_answered_with_the_list() {
        assert_eq!(selected("", "", "").map(|ops| ops.len()), Ok(OPERATIONS.len()));
        assert_eq!(selected("delta", "delta.rec", "cols"), Ok(vec!["delta.rec"]));
        assert_eq!(selected("", "", "window"), Ok(vec!["delta.rec", "delta.commit"]));
        let error = |family, op, variant| selected(family, op, variant).expect_err("unknown");
        assert_eq!(
            error("gamma", "", ""),
            "no family `gamma`; there are attn, conv, delta, dense, hyper, mmvq, moe, norm, ple, qsa"
        );
        assert!(error("", "delta.wreck", "").contains("delta.gates, delta.out_norm, delta.rec"));
        assert!(error("", "delta.rec", "warp").contains("cols"), "another operation's variant");
    }

    #[test]
    fn case_names_are_unique_in_an_operation() {
        for operation in OPERATIONS {
            for scale in [Scale::Small, Scale::Thorough, Scale::Full, Scale::Long] {
                let works = (operation.works)(scale);
                let names: BTreeSet<_> = works.iter().map(|work| work.case.as_str()).collect();
                assert_eq!(names.len(), works.len(), "{} {scale:?}", operation.op);
            }
        }
    }
}
