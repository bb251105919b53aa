//! Which variant of `mmvq.product` runs, by format, vectors and rows of the matrix. Speed only: all that a table names give the
//! same bits.
//!
//! A cell is a variant's name. A device takes the table of its compute capability and number of SMs, else that of its
//! compute capability, else, from 8.0 on, the common one, else `plain`; where a table says nothing of a format or a count
//! of vectors, `plain` runs. The emulator takes the form with the fewest threads ([`emulated`]).

use std::str::FromStr;

use varve_gpu::mmvq::Format;

use super::Source;
use crate::backend::Caps;
use crate::ops::dispatch::{Preferred, Variant};
use crate::ops::mmvq_product::MMVQ_PRODUCT;

/// The base variant.
pub const PLAIN: &str = "plain";

/// Upper ends of the classes of matrix rows; the last class has no end.
const ENDS: [usize; CLASSES - 1] = [2048, 4096, 8192, 12288];
/// Classes.
pub const CLASSES: usize = 5;

/// One variant a class.
type Cells = [&'static str; CLASSES];

/// The class of a matrix.
#[must_use]
pub fn class(n_out: usize) -> usize {
    ENDS.iter().take_while(|&&end| n_out >= end).count()
}

/// A line of a table.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Format of the matrix.
    pub format: Format,
    /// Vectors.
    pub columns: usize,
    /// Variants by class.
    pub cells: Cells,
}

/// A table.
#[derive(Debug)]
pub struct Rows {
    /// Compute capability that it is for; none: every one from 8.0 on.
    pub cc: Option<u32>,
    /// Number of SMs; none: any.
    pub sms: Option<u32>,
    /// What it says.
    pub lines: &'static [Line],
    /// Where it comes from.
    pub source: Source,
}

const P: &str = PLAIN;
const R1: &str = "il_r1";
const R2: &str = "il_r2";
const R4: &str = "il_r4";
const F: &str = "fused";

const fn line(format: Format, columns: usize, cells: Cells) -> Line {
    Line { format, columns, cells }
}

/// For cards that have no table of their own: rows of a warp that two cards of another project's table agreed on. A cell
/// whose instance does not exist here is the next smaller one.
const COMMON: Rows = Rows {
    cc: None,
    sms: None,
    lines: &[
        line(Format::IQ4_XS, 3, [P, P, R2, R2, R2]),
        line(Format::IQ4_XS, 4, [P, R1, R1, R1, R1]),
        line(Format::Q4_K, 2, [P, P, R2, R2, R2]),
        line(Format::Q4_K, 3, [P, R1, R1, R1, R1]),
        line(Format::Q4_K, 4, [P, R1, R1, R1, R1]),
        line(Format::Q5_K, 2, [P, P, R2, R2, R2]),
        line(Format::Q5_K, 3, [P, R2, R1, R1, R1]),
        line(Format::Q5_K, 4, [P, R1, R1, R1, R2]),
        line(Format::Q6_K, 2, [P, P, R2, R2, P]),
        line(Format::Q6_K, 3, [P, P, R1, R1, R2]),
        line(Format::Q6_K, 4, [P, P, R1, R1, R1]),
    ],
    source: Source {
        device: "RTX 3060 and RTX 5070",
        driver: "not known",
        commit: "another engine's",
        date: "before 2026-11",
        command: "not known",
        rule: "published table: the choice whose worst card of the two gains 3 %; R = 1 taken as 2 where only that exists here",
    },
};

/// 70 SMs of a GA100: of Q6_K the rows that were published; which of the hoisted forms each cell had was not.
const CMP_170HX: Rows = Rows {
    cc: Some(80),
    sms: Some(70),
    lines: &[
        line(Format::Q6_K, 2, [P, "hoist_b4_r2", "hoist_b4_r2", "hoist_b4_r2", "hoist_b4_r2"]),
        line(Format::Q6_K, 3, [P, "hoist_b5_r1", "hoist_b3_r2", "hoist_b3_r2", "hoist_b3_r2"]),
        line(Format::Q6_K, 4, [P, "hoist_b5_r1", "hoist_b3_r2", "hoist_b3_r2", "hoist_b3_r2"]),
    ],
    source: Source {
        device: "CMP 170HX",
        driver: "not known",
        commit: "another engine's",
        date: "before 2026-11",
        command: "not known",
        rule: "published rows of a warp, hoisted; blocks an SM by the registers that an instance needs here",
    },
};

/// 132 SMs of GH100. Three vectors were not timed: they run the instances of four, as five to seven those of eight.
const H200: Rows = Rows {
    cc: Some(90),
    sms: Some(132),
    lines: &[
        line(Format::Q6_K, 1, [F, F, F, F, F]),
        line(Format::Q6_K, 2, [F, "hoist_b5_r1", F, F, F]),
        line(Format::Q6_K, 3, [P, "hoist_b5_r1", "hoist_b3_r2", "hoist_b5_r1", F]),
        line(Format::Q6_K, 4, [P, "hoist_b5_r1", "hoist_b3_r2", "hoist_b5_r1", F]),
        line(Format::Q6_K, 5, [P, R2, R2, F, F]),
        line(Format::Q6_K, 6, [P, R2, R2, F, F]),
        line(Format::Q6_K, 7, [P, R2, R2, F, F]),
        line(Format::Q6_K, 8, [P, R2, R2, F, F]),
        line(Format::Q5_K, 1, [P, F, F, F, F]),
        line(Format::Q5_K, 2, [P, "hoist_b4_r2", R4, R2, R2]),
        line(Format::Q5_K, 3, [P, R2, R2, R2, R2]),
        line(Format::Q5_K, 4, [P, R2, R2, R2, R2]),
        line(Format::Q5_K, 5, [P, R2, R2, R2, R2]),
        line(Format::Q5_K, 6, [P, R2, R2, R2, R2]),
        line(Format::Q5_K, 7, [P, R2, R2, R2, R2]),
        line(Format::Q5_K, 8, [P, R2, R2, R2, R2]),
        line(Format::Q4_K, 1, [P, F, F, F, F]),
        line(Format::Q4_K, 2, [P, "hoist_b4_r2", R4, R2, R2]),
        line(Format::Q4_K, 3, [P, R2, R2, R2, R2]),
        line(Format::Q4_K, 4, [P, R2, R2, R2, R2]),
        line(Format::Q4_K, 5, [P, R2, R2, R2, R2]),
        line(Format::Q4_K, 6, [P, R2, R2, R2, R2]),
        line(Format::Q4_K, 7, [P, R2, R2, R2, R2]),
        line(Format::Q4_K, 8, [P, R2, R2, R2, R2]),
        line(Format::IQ4_XS, 1, [P, P, F, F, F]),
        line(Format::IQ4_XS, 2, [P, "hoist_b5_r1", R4, R4, R4]),
        line(Format::IQ4_XS, 3, [P, "hoist_b3_r2", R2, "hoist_b3_r2", "hoist_b3_r2"]),
        line(Format::IQ4_XS, 4, [P, "hoist_b3_r2", R2, "hoist_b3_r2", "hoist_b3_r2"]),
        line(Format::IQ4_XS, 5, [P, R2, R2, R2, R2]),
        line(Format::IQ4_XS, 6, [P, R2, R2, R2, R2]),
        line(Format::IQ4_XS, 7, [P, R2, R2, R2, R2]),
        line(Format::IQ4_XS, 8, [P, R2, R2, R2, R2]),
        line(Format::Q3_K, 1, [P, P, P, F, F]),
        line(Format::Q3_K, 2, [P, P, P, R2, R2]),
        line(Format::Q3_K, 3, [P, P, P, R2, R2]),
        line(Format::Q3_K, 4, [P, P, P, R2, R2]),
        line(Format::Q3_K, 5, [P, P, P, R2, R2]),
        line(Format::Q3_K, 6, [P, P, P, R2, R2]),
        line(Format::Q3_K, 7, [P, P, P, R2, R2]),
        line(Format::Q3_K, 8, [P, P, P, R2, R2]),
        line(Format::Q8_0, 1, [P, P, P, F, F]),
        line(Format::Q8_0, 2, [P, P, P, F, F]),
        line(Format::Q8_0, 3, [P, P, P, "hoist_b4_r2", "hoist_b4_r2"]),
        line(Format::Q8_0, 4, [P, P, P, "hoist_b4_r2", "hoist_b4_r2"]),
        line(Format::Q8_0, 5, [P, P, P, "hoist_b3_r2", "hoist_b3_r2"]),
        line(Format::Q8_0, 6, [P, P, P, "hoist_b3_r2", "hoist_b3_r2"]),
        line(Format::Q8_0, 7, [P, P, P, "hoist_b3_r2", "hoist_b3_r2"]),
        line(Format::Q8_0, 8, [P, P, P, "hoist_b3_r2", "hoist_b3_r2"]),
        line(Format::IQ3_S, 1, [P, P, P, R2, R2]),
        line(Format::IQ3_S, 2, [P, P, P, R2, R2]),
        line(Format::IQ3_S, 3, [P, P, P, R2, R2]),
        line(Format::IQ3_S, 4, [P, P, P, R2, R2]),
        line(Format::IQ3_S, 5, [P, P, P, R2, R2]),
        line(Format::IQ3_S, 6, [P, P, P, R2, R2]),
        line(Format::IQ3_S, 7, [P, P, P, R2, R2]),
        line(Format::IQ3_S, 8, [P, P, P, R2, R2]),
    ],
    source: Source {
        device: "NVIDIA H200",
        driver: "580.159.04",
        commit: "fd1d9a1",
        date: "2026-11-30",
        command: "varve bench --family mmvq --rounds 3 --tokens 1 2 4 8",
        rule: "cold matrices, quantizer included: the fastest where below 0.97 x plain; a class without a shape as the one below",
    },
};

/// All tables, the most special first.
pub const TABLES: &[Rows] = &[CMP_170HX, H200, COMMON];

/// The emulator's variant: its time goes with threads and their meetings, of which `plain` has four warps for a row or two,
/// and these one for four or two.
fn emulated(format: Format, columns: usize) -> &'static str {
    match (format, columns) {
        (Format::IQ4_NL | Format::IQ2_XS, _) | (_, 0 | 9..) => PLAIN,
        (_, 1 | 2) => R4,
        _ => R2,
    }
}

/// The variant for a call on a device. Pure.
#[must_use]
pub fn rows_for(caps: &Caps, format: Format, columns: usize, n_out: usize) -> &'static str {
    if caps.is_emulator {
        return emulated(format, columns);
    }
    let is_of =
        |rows: &&Rows| rows.cc.map_or(caps.cc >= 80, |cc| cc == caps.cc) && rows.sms.is_none_or(|n| n == caps.sms);
    let line_of =
        |rows: &Rows| rows.lines.iter().find(|line| line.format == format && line.columns == columns).copied();
    TABLES.iter().filter(is_of).find_map(line_of).map_or(PLAIN, |line| line.cells[class(n_out)])
}

/// Lines that take the place of every table's, for trying variants without a build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowsOverride(Vec<(Format, usize, Cells)>);

impl RowsOverride {
    /// The variant that they name.
    #[must_use]
    pub fn get(&self, format: Format, columns: usize, n_out: usize) -> Option<&'static str> {
        let found = self.0.iter().rfind(|(f, c, _)| (*f, *c) == (format, columns));
        found.map(|(_, _, cells)| cells[class(n_out)])
    }
}

/// Lines that cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{entry}` is no line of rows: {why}; write FORMAT:VECTORS:V,V,V,V,V, several with semicolons, as in \
     q6_k:3:0,il_r2,hoist_b4_r2,2,2, where V is a variant of mmvq.product, a number of rows a warp (1, 2, 4: il_r1, il_r2, \
     il_r4), or 0 for plain; the five are for matrices below 2048, 4096, 8192, 12288 rows, and from there on"
)]
pub struct RowsError {
    entry: String,
    why: &'static str,
}

/// The variant that a cell of an override names.
fn cell(text: &str) -> Option<&'static str> {
    match text {
        "0" => Some(PLAIN),
        "1" => Some(R1),
        "2" => Some(R2),
        "4" => Some(R4),
        name => {
            let tabled = |row: &&Variant<_, _>| row.name == name && !matches!(row.preferred, Preferred::OptIn);
            MMVQ_PRODUCT.rows.iter().find(tabled).map(|row| row.name)
        }
    }
}

impl FromStr for RowsOverride {
    type Err = RowsError;

    fn from_str(text: &str) -> Result<Self, RowsError> {
        let read = |entry: &str| {
            let error = |why| RowsError { entry: entry.to_owned(), why };
            let [format, columns, cells] = entry.split(':').collect::<Vec<_>>()[..] else {
                return Err(error("it has not three parts"));
            };
            let format = Format::ALL.into_iter().find(|f| f.name() == format).ok_or_else(|| error("no such format"))?;
            let columns = columns.parse().ok().filter(|n| (1..=8).contains(n));
            let columns = columns.ok_or_else(|| error("the number of vectors is not 1 to 8"))?;
            let cells: Option<Vec<_>> = cells.split(',').map(|text| cell(text.trim())).collect();
            let cells = cells.ok_or_else(|| error("a cell is neither a variant nor 0, 1, 2, 4"))?;
            let cells = cells.try_into().map_err(|_| error("it has not five cells"))?;
            Ok((format, columns, cells))
        };
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(read).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Device, EmulatorConfig, known_card, known_cards};
    use crate::ops::card::Card;
    use crate::ops::dispatch::{Dispatch, Pick};
    use crate::ops::mmvq_product::QuantizedProductSizes;
    use crate::ops::switches::Switches;

    fn card(name: &str) -> Caps {
        known_card(name).expect("a known card")
    }

    #[test]
    fn classes_begin_where_they_say() {
        let classes = [1, 2047, 2048, 4095, 4096, 8191, 8192, 12287, 12288, 248_320].map(class);
        assert_eq!(classes, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn a_card_takes_its_own_table_first() {
        assert_eq!(rows_for(&card("CMP 170HX"), Format::Q6_K, 3, 6144), "hoist_b3_r2");
        assert_eq!(rows_for(&card("A100"), Format::Q6_K, 3, 6144), "il_r1", "another number of SMs");
        assert_eq!(
            rows_for(&card("CMP 170HX"), Format::Q4_K, 3, 6144),
            "il_r1",
            "a format that its own says nothing of"
        );
        assert_eq!(rows_for(&card("T4"), Format::Q6_K, 3, 6144), PLAIN, "below 8.0");
        for (format, columns) in [(Format::IQ2_XS, 3), (Format::Q6_K, 0), (Format::Q6_K, 9)] {
            assert_eq!(rows_for(&card("H200"), format, columns, 6144), PLAIN, "no table says anything of it");
        }
    }

    /// A cell that names a variant without an instance would silently be `plain`.
    #[test]
    fn every_cell_can_run() {
        let emulator = Device::emulator(EmulatorConfig::default()).caps().clone();
        for caps in known_cards().into_iter().chain([emulator]) {
            for format in Format::ALL {
                for (columns, n_out) in (1..=8).flat_map(|c| [512, 2560, 6144, 10240, 248_320].map(|n| (c, n))) {
                    let ask = QuantizedProductSizes::on(&caps, Pick::Named(""), format, [2560, n_out], columns);
                    let row = MMVQ_PRODUCT.row(ask.wanted).expect("a variant");
                    let kernel = MMVQ_PRODUCT.launch_of(row, &caps, &ask);
                    assert!(
                        kernel.is_ok(),
                        "{}: {format:?}, {columns} vectors, {n_out} rows: {}",
                        caps.name,
                        ask.wanted
                    );
                }
            }
        }
    }

    #[test]
    fn an_override_goes_before_the_tables() {
        let card = Card(card("H200"));
        let chosen = |switches: Switches, n_out| {
            let dispatch = Dispatch::new(switches);
            let pick = Pick::Best(&dispatch);
            let ask = QuantizedProductSizes::on(&card.0, pick, Format::Q6_K, [2560, n_out], 1);
            MMVQ_PRODUCT.select(&dispatch, &card, &ask).expect("the base runs everywhere").variant
        };
        let rows = "q6_k:1:0,2,hoist_b4_r2,hoist_b4_r2,hoist_b4_r2".parse().expect("a line");
        let with_rows = || {
            let mut switches = Switches::default();
            switches.mmvq_rows = RowsOverride::clone(&rows);
            switches
        };
        assert_eq!([512, 2560, 6144].map(|n| chosen(with_rows(), n)), ["plain", "il_r2", "hoist_b4_r2"]);
        let named = || "mmvq.product=il_r1".parse().expect("a switch");
        assert_eq!(chosen(named(), 6144), "il_r1", "a switch goes before any table");
    }

    #[test]
    fn overrides_read_and_malformed_ones_say_why() {
        let rows: RowsOverride = "q6_k:3:0,1,2,4,hoist_b4_r2; q8_0:1:2,2,2,2,2".parse().expect("two lines");
        let cells = [512, 2560, 6144, 10240, 12288].map(|n_out| rows.get(Format::Q6_K, 3, n_out));
        assert_eq!(cells, [PLAIN, "il_r1", "il_r2", "il_r4", "hoist_b4_r2"].map(Some));
        assert_eq!(rows.get(Format::Q6_K, 2, 2560), None);
        assert_eq!(rows.get(Format::Q8_0, 1, 2560), Some("il_r2"));
        for (text, why) in [
            ("q6_k:3", "three parts"),
            ("q7_k:3:0,0,0,0,0", "no such format"),
            ("q6_k:9:0,0,0,0,0", "not 1 to 8"),
            ("q6_k:3:0,0,0,0", "five cells"),
            ("q6_k:3:0,0,3,0,0", "neither"),
            ("q6_k:3:0,0,mma,0,0", "neither"), // its bits are its own
        ] {
            let error = text.parse::<RowsOverride>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}`")) && error.contains(why), "{error}");
        }
    }
}
