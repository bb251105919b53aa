//! Measured tables: where a variant pays, by kind of device, each row with the measurement that it comes from. They decide
//! speed only. `varve bench --emit-thresholds` prints rows from its own figures.

pub mod delta_rec;
pub mod dense_product;
pub mod mmvq_rows;
pub mod qsa_attend;

use super::reason::Reason;
use crate::backend::Caps;

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The card.
    pub device: &'static str,
    /// Its driver.
    pub driver: &'static str,
    /// Commit that was measured.
    pub commit: &'static str,
    /// Day of the measurement.
    pub date: &'static str,
    /// What repeats it.
    pub command: &'static str,
    /// How the row follows from the figures.
    pub rule: &'static str,
}

/// A kind of device, and from where on a variant pays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Compute capability, 90 = 9.0.
    pub cc: u32,
    /// Fewest and most SMs of the kind.
    pub sms: [u32; 2],
    /// Least tokens of the longest sequence.
    pub from_tokens: usize,
    /// Most sequences of a call.
    pub most_sequences: usize,
    /// The measurement.
    pub source: Source,
}

impl Measured {
    fn is_of(&self, caps: &Caps) -> bool {
        self.cc == caps.cc && (self.sms[0]..=self.sms[1]).contains(&caps.sms)
    }

    fn holds(&self, [tokens, sequences]: [usize; 2]) -> Result<(), Reason> {
        if tokens < self.from_tokens {
            return Err(Reason::Short { tokens, from: self.from_tokens, device: self.source.device });
        }
        if sequences > self.most_sequences {
            let (most, device) = (self.most_sequences, self.source.device);
            return Err(Reason::Many { sequences, most, device });
        }
        Ok(())
    }
}

/// Whether a row of the table says that a call of `[tokens of the longest sequence, sequences]` pays on the device; `switch`
/// is what takes the variant anyway. The emulator, whatever card it claims to be, is no kind of device that was measured.
///
/// # Errors
/// [`Reason::Unmeasured`], or why the first row of the device's kind does not hold.
pub fn pays(table: &[Measured], caps: &Caps, size: [usize; 2], switch: &str) -> Result<(), Reason> {
    let mut why = None;
    for row in table.iter().filter(|row| !caps.is_emulator && row.is_of(caps)) {
        match row.holds(size) {
            Ok(()) => return Ok(()),
            Err(reason) => why = why.or(Some(reason)),
        }
    }
    Err(why.unwrap_or_else(|| Reason::Unmeasured { switch: switch.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::known_card;

    const SOURCE: Source = Source { device: "H200", driver: "", commit: "", date: "", command: "", rule: "" };
    const ONE: Measured = Measured { cc: 90, sms: [114, 144], from_tokens: 128, most_sequences: 1, source: SOURCE };
    const TABLE: &[Measured] = &[ONE, Measured { from_tokens: 256, most_sequences: 8, ..ONE }];

    fn asked(caps: &Caps, size: [usize; 2]) -> Option<String> {
        pays(TABLE, caps, size, "delta.rec=x").err().map(|reason| reason.to_string())
    }

    #[test]
    fn any_row_of_the_device_s_kind_will_do() {
        let h200 = known_card("H200").expect("a known card");
        assert_eq!(asked(&h200, [128, 1]), None);
        assert_eq!(asked(&h200, [256, 8]), None, "by the second row");
        let short = "127 tokens in the longest sequence; it pays from 128 on (H200)".to_owned();
        assert_eq!(asked(&h200, [127, 1]), Some(short));
        let many = "8 sequences; it pays up to 1 (H200)".to_owned();
        assert_eq!(asked(&h200, [200, 8]), Some(many), "the first row's reason");
    }

    #[test]
    fn other_devices_and_the_emulator_are_unmeasured() {
        let h200 = known_card("H200").expect("a known card");
        let others = [
            Caps { cc: 80, ..h200.clone() },
            Caps { sms: 113, ..h200.clone() },
            Caps { sms: 145, ..h200.clone() },
            Caps { is_emulator: true, ..h200 },
        ];
        for caps in others {
            let unmeasured = "not measured on this kind of device; `delta.rec=x` takes it".to_owned();
            assert_eq!(asked(&caps, [4096, 1]), Some(unmeasured));
        }
    }
}
