//! The type of each tensor: what the rules say, as far as its rows fill the blocks.

use super::super::{DType, is_readable};
use super::{ExportError, Plan, Planned, Rules, To};

/// The type that a tensor gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The type.
    pub dtype: DType,
    /// The type that a rule asked for, where rows of the tensor's width do not fill its blocks.
    pub instead_of: Option<DType>,
}

/// The types of all tensors of a plan, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// One for each tensor.
    pub choices: Vec<Choice>,
    /// Lines of the first list's rules that no tensor took.
    pub idle: Vec<usize>,
}

impl Plan<'_> {
    /// Goes through the lists of rules for each tensor; the first rule that matches counts. What no rule matches stays, and
    /// tensors of one dimension always do.
    ///
    /// # Errors
    /// A type that is not read must stay, and one that GGUF does not have cannot.
    pub fn choose(&self, lists: &[&Rules]) -> Result<Chosen, ExportError> {
        let mut choices = Vec::with_capacity(self.tensors.len());
        let mut taken = Vec::new();
        for tensor in &self.tensors {
            let rule = lists.iter().enumerate().find_map(|(list, rules)| Some((list, rules.find(&tensor.name)?)));
            taken.extend(rule.filter(|(list, _)| *list == 0).map(|(_, rule)| rule.line));
            let choice = choice(tensor, rule.map_or(To::Keep, |(_, rule)| rule.to));
            check(tensor, choice.dtype)?;
            choices.push(choice);
        }
        let lines = lists.first().into_iter().flat_map(|rules| rules.iter()).map(|rule| rule.line);
        Ok(Chosen { choices, idle: lines.filter(|line| !taken.contains(line)).collect() })
    }
}

fn choice(tensor: &Planned<'_>, to: To) -> Choice {
    let keep = Choice { dtype: tensor.dtype, instead_of: None };
    let To::Type(wanted) = to else { return keep };
    if tensor.shape.len() < 2 {
        return keep;
    }
    let fills = |dtype: &DType| tensor.columns().is_multiple_of(dtype.block_len());
    match [wanted, narrower(wanted)].into_iter().find(fills) {
        Some(dtype) => Choice { dtype, instead_of: (dtype != wanted).then_some(wanted) },
        None => Choice { instead_of: Some(wanted), ..keep },
    }
}

/// The type with blocks of 32 values that is the nearest, from above as far as there is one.
fn narrower(dtype: DType) -> DType {
    match dtype {
        DType::Q4_K | DType::IQ4_XS => DType::IQ4_NL,
        DType::Q5_K | DType::Q6_K => DType::Q8_0,
        other => other,
    }
}

fn check(tensor: &Planned<'_>, dtype: DType) -> Result<(), ExportError> {
    if dtype.ggml().is_none() {
        return Err(ExportError::NoGgml { tensor: tensor.name.clone(), dtype });
    }
    if tensor.is_stored_as(dtype) {
        return Ok(());
    }
    match tensor.stored_types().find(|&stored| !is_readable(stored)) {
        Some(dtype) => Err(ExportError::Unreadable { tensor: tensor.name.clone(), dtype }),
        None => Ok(()),
    }
}
