//! Which tensors get which type: lines of a pattern and a type, of which the first that matches counts.

use super::super::{DType, quant, shortened};

/// What becomes of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// It stays in the type it has.
    Keep,
    /// It is stored in this type.
    Type(DType),
}

impl To {
    /// `keep`, or a type that can be made, in small letters.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if name == "keep" {
            return Some(Self::Keep);
        }
        makable().find(|dtype| dtype.name().to_ascii_lowercase() == name).map(Self::Type)
    }

    /// What [`parse`](Self::parse) takes, as a message lists it.
    #[must_use]
    pub fn known() -> String {
        let names = makable().map(|dtype| dtype.name().to_ascii_lowercase());
        names.chain(["keep".to_owned()]).collect::<Vec<_>>().join(", ")
    }
}

fn makable() -> impl Iterator<Item = DType> {
    DType::all().filter(|&dtype| quant::is_writable(dtype))
}

/// A line of a rule file that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are what the messages show
pub enum RuleError {
    /// Not two words.
    #[error("line {line}: `{}` is no rule: a rule is a pattern of tensor names and a type", shortened(.got))]
    Form { line: usize, got: String },
    /// A type that is unknown or cannot be made.
    #[error("line {line}: `{}` is no type that can be made; known are {}", shortened(.got), To::known())]
    Type { line: usize, got: String },
}

/// A list of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its line, from 1.
    pub line: usize,
    /// A name in which `*` stands for any text and `?` for any character.
    pub pattern: String,
    /// The type.
    pub to: To,
}

impl Rules {
    /// Reads lines of the form `PATTERN TYPE`; empty ones, and what is behind a `#`, do not count.
    ///
    /// # Errors
    /// [`RuleError`] names the first line that is no rule.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut rules = Vec::new();
        for (line, whole) in (1..).zip(text.lines()) {
            let words: Vec<&str> = whole.split('#').next().unwrap_or_default().split_whitespace().collect();
            match words[..] {
                [] => {}
                [pattern, name] => match To::parse(name) {
                    Some(to) => rules.push(Rule { line, pattern: pattern.to_owned(), to }),
                    None => return Err(RuleError::Type { line, got: name.to_owned() }),
                },
                _ => return Err(RuleError::Form { line, got: whole.trim().to_owned() }),
            }
        }
        Ok(Self(rules))
    }

    /// The rules behind those of a user, for a model whose matrices become `dtype`.
    ///
    /// Norms, convolutions, routers, gates and the injections of residual mixers stay: they are small, and errors in them
    /// reach everything. Embedding and head get Q6_K where the other matrices get less: a head's error is the logits'.
    #[must_use]
    pub fn defaults(dtype: DType) -> Self {
        let coarse = matches!(dtype, DType::Q4_K | DType::Q5_K | DType::IQ4_NL | DType::IQ4_XS);
        let outer = To::Type(if coarse { DType::Q6_K } else { dtype });
        let small =
            ["*norm*.weight", "*conv1d.weight", "*.ffn_gate_inp*.weight", "*.ssm_alpha.weight", "*.ssm_beta.weight"];
        let kept = small.into_iter().chain(["*_inject.weight"]).map(|pattern| (pattern, To::Keep));
        let outer = [("token_embd.weight", outer), ("output.weight", outer)];
        let rules = kept.chain(outer).chain([("*.weight", To::Type(dtype))]);
        let rule = |(line, (pattern, to)): (usize, (&str, To))| Rule { line, pattern: pattern.to_owned(), to };
        Self((1..).zip(rules).map(rule).collect())
    }

    /// The rules in order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// The first rule for a tensor of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Rule> {
        self.0.iter().find(|rule| matches(&rule.pattern, name))
    }
}

/// Whether the pattern matches the whole name.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star = None; // the last `*`, and where the text behind it was last tried
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, tried)) = star else { return false };
                (p, n) = (at + 1, tried + 1);
                star = Some((at, tried + 1));
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, wanted) in [
            ("*", "", true),
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("a?b", "axb", true),
            ("a?b", "ab", false),
            ("*.b", "a.b.b", true),
            ("*ab*ab", "abxab", true),
            ("*ab*ab", "xab", false),
            ("blk.*.ffn_*.weight", "blk.10.ffn_up_exps.weight", true),
            ("blk.1.*", "blk.10.x", false),
            ("a**", "a", true),
            ("é?", "éä", true),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn lines_are_read_and_refused_by_number() {
        let rules = Rules::parse("# all\n\noutput.* q6_k # the head\r\n\t* keep\n");
        let rule = |line, pattern: &str, to| Rule { line, pattern: pattern.to_owned(), to };
        let wanted = vec![rule(3, "output.*", To::Type(DType::Q6_K)), rule(4, "*", To::Keep)];
        assert_eq!(rules, Ok(Rules(wanted)));
        assert_eq!(Rules::parse("* keep\n* q9"), Err(RuleError::Type { line: 2, got: "q9".to_owned() }));
        assert_eq!(Rules::parse("*"), Err(RuleError::Form { line: 1, got: "*".to_owned() }));
        assert_eq!(Rules::parse("a b c"), Err(RuleError::Form { line: 1, got: "a b c".to_owned() }));
        assert!(Rules::parse("* q3_k").is_err(), "Q3_K is read, and not made");
        assert_eq!(To::known(), "f32, f16, bf16, q8_0, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, keep");
    }

    #[test]
    fn the_default_keeps_what_is_small_and_spares_the_head() {
        let rules = Rules::defaults(DType::Q4_K);
        let to = |name: &str| rules.find(name).map_or(To::Keep, |rule| rule.to);
        for kept in [
            "blk.0.attn_norm.weight",
            "blk.0.ssm_conv1d.weight",
            "blk.0.ffn_gate_inp_shexp.weight",
            "blk.0.ssm_dt.bias",
            "blk.0.ssm_alpha.weight",
            "blk.0.hc_ffn_inject.weight",
            "blk.0.ssm_a",
            "output_norm.weight",
        ] {
            assert_eq!(to(kept), To::Keep, "{kept}");
        }
        for matrix in ["blk.0.attn_qkv.weight", "blk.0.ffn_down_exps.weight", "per_layer_token_embd.weight"] {
            assert_eq!(to(matrix), To::Type(DType::Q4_K), "{matrix}");
        }
        assert_eq!([to("output.weight"), to("token_embd.weight")], [To::Type(DType::Q6_K); 2]);
        assert_eq!(Rules::defaults(DType::Q8_0).find("output.weight").map(|r| r.to), Some(To::Type(DType::Q8_0)));
    }
}
