//! PTX text to facts and rules: what a test may demand of a kernel's code without fixing its registers.
//!
//! ```
//! use cuda_builder::rules::{Ptx, Rule};
//! let text = ".version 7.8\n.target sm_80\n.visible .entry k()\n.maxntid 64\n{\n\tbar.sync \t0;\n\tret;\n}\n";
//! let ptx = Ptx::parse(text);
//! let k = ptx.entry("k").expect("listed above");
//! assert_eq!((k.max_threads, k.barriers()), (Some(64), 1));
//! assert!(Rule::NoLocalMemory.check(k).is_ok());
//! ```

use std::fmt;

/// A module's text, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ptx {
    /// `.version`, as in `7.8`.
    pub version: String,
    /// `.target`, as in `sm_80`.
    pub target: String,
    /// The kernels, in the order of the text.
    pub entries: Vec<Entry>,
    /// Names of device functions that were not inlined.
    pub functions: Vec<String>,
}

/// One kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Symbol.
    pub name: String,
    /// Line of the module's text where it begins, from 1.
    pub line: usize,
    /// Threads a block that `.maxntid` allows (its first number; blocks here are one-dimensional bounds).
    pub max_threads: Option<u32>,
    /// Blocks an SM that `.minnctapersm` demands.
    pub min_blocks: Option<u32>,
    /// Instructions and labels, inline assembly included.
    pub instructions: Vec<Instruction>,
    /// Whether variables were placed in local memory (a depot).
    pub has_local_variables: bool,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Line of the module's text, from 1.
    pub line: usize,
    /// Whether it stands under a predicate (`@%p1`).
    pub predicated: bool,
    /// Operation with all its modifiers, as in `ld.shared.v4.b32`.
    pub opcode: String,
    /// The rest, as it stands.
    pub operands: String,
}

impl Ptx {
    /// Takes the text of a module apart.
    pub fn parse(text: &str) -> Self {
        let directive = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap_or_default().trim().to_owned()
        };
        let mut ptx = Self {
            version: directive(".version "),
            target: directive(".target "),
            entries: Vec::new(),
            functions: Vec::new(),
        };
        let mut current: Option<Entry> = None;
        for (index, raw) in text.lines().enumerate() {
            let (line, code) = (index + 1, without_comment(raw).trim());
            if let Some(name) = after_word(code, ".entry") {
                current = Some(Entry::begin(name, line));
            } else if let Some(name) = after_word(code, ".func") {
                ptx.functions.push(name.to_owned());
            } else if raw.starts_with('}') {
                ptx.entries.extend(current.take());
            } else if let Some(entry) = &mut current {
                entry.read(line, code);
            }
        }
        ptx
    }

    /// The kernel of that name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// The kernel whose text spans `line`.
    pub fn entry_at(&self, line: usize) -> Option<&Entry> {
        self.entries.iter().take_while(|e| e.line <= line).last()
    }
}

fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// The identifier after a directive, as in `.visible .entry name(`.
fn after_word<'a>(code: &'a str, word: &str) -> Option<&'a str> {
    let (before, after) = code.split_once(word)?;
    let is_directive = before.split_whitespace().all(|w| w.starts_with('.'));
    let after = after.trim_start();
    // A function's result stands in parentheses before its name.
    let after = if after.starts_with('(') { after.split_once(')')?.1.trim_start() } else { after };
    let name = after.split(['(', ' ', '\t']).next().filter(|n| !n.is_empty())?;
    is_directive.then_some(name)
}

impl Entry {
    fn begin(name: &str, line: usize) -> Self {
        Self {
            name: name.to_owned(),
            line,
            max_threads: None,
            min_blocks: None,
            instructions: Vec::new(),
            has_local_variables: false,
        }
    }

    fn read(&mut self, line: usize, code: &str) {
        let number = |rest: &str| rest.split([',', ' ']).find_map(|n| n.trim().parse().ok());
        if let Some(rest) = code.strip_prefix(".maxntid") {
            self.max_threads = number(rest);
        } else if let Some(rest) = code.strip_prefix(".minnctapersm") {
            self.min_blocks = number(rest);
        } else if code.starts_with(".local") {
            self.has_local_variables = true;
        } else {
            self.instructions.extend(code.split(';').filter_map(|one| Instruction::read(line, one)));
        }
    }

    /// Instructions of which `opcode` is the whole operation or its beginning up to a dot.
    pub fn count(&self, opcode: &str) -> usize {
        self.instructions.iter().filter(|i| i.is(opcode)).count()
    }

    /// Instructions at which the threads of a block (or a named part of it) wait for each other.
    pub fn barriers(&self) -> usize {
        self.instructions.iter().filter(|i| i.is_barrier()).count()
    }

    /// 16-byte loads or stores (`ld` or `st`) of a state space, as in `wide("ld", "shared")`.
    pub fn wide(&self, operation: &str, space: &str) -> usize {
        let is_wide = |i: &&Instruction| i.is(operation) && i.has(space) && i.access_bytes() == Some(16);
        self.instructions.iter().filter(is_wide).count()
    }

    /// The first `opcode` that only part of a warp may reach, because a predicated branch stands before it. For kernels
    /// without a loop before the first such instruction: a loop's branch is predicated too.
    pub fn behind_branch(&self, opcode: &str) -> Option<&Instruction> {
        let at = self.instructions.iter().position(|i| i.is(opcode))?;
        let branched = self.instructions[..at].iter().any(|i| i.predicated && i.is("bra"));
        branched.then(|| &self.instructions[at])
    }
}

impl Instruction {
    fn read(line: usize, code: &str) -> Option<Self> {
        let code = code.trim().trim_start_matches('{').trim_end_matches('}').trim();
        let (predicated, code) = match code.strip_prefix('@') {
            Some(rest) => (true, rest.split_once(char::is_whitespace)?.1.trim_start()),
            None => (false, code),
        };
        // A label is a first word that ends in one colon; `shared::cta` has two inside.
        let word = code.split(char::is_whitespace).next().unwrap_or_default();
        let code = if word.ends_with(':') { code[word.len()..].trim_start() } else { code };
        let (opcode, operands) = code.split_once(char::is_whitespace).unwrap_or((code, ""));
        let is_instruction = opcode.starts_with(|c: char| c.is_ascii_lowercase());
        is_instruction.then(|| Self {
            line,
            predicated,
            opcode: opcode.to_owned(),
            operands: operands.trim().to_owned(),
        })
    }

    /// Whether `opcode` is the whole operation or its beginning up to a dot.
    pub fn is(&self, opcode: &str) -> bool {
        self.opcode.strip_prefix(opcode).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Whether a modifier is among the operation's.
    pub fn has(&self, modifier: &str) -> bool {
        self.opcode.split('.').any(|part| part == modifier || part.split("::").next() == Some(modifier))
    }

    fn is_barrier(&self) -> bool {
        (self.is("bar") || self.is("barrier"))
            && (self.has("sync") || self.has("red"))
            && !self.has("warp")
            && !self.has("cluster")
    }

    /// Whether it is a load or store that names no state space.
    pub fn is_generic_access(&self) -> bool {
        const SPACES: [&str; 5] = ["global", "shared", "local", "param", "const"];
        (self.is("ld") || self.is("st") || self.is("atom") || self.is("red")) && !SPACES.iter().any(|s| self.has(s))
            || self.is("ldu")
    }

    /// Bytes that a load or store moves in one thread.
    pub fn access_bytes(&self) -> Option<u32> {
        let bits = self.opcode.rsplit('.').next()?.trim_start_matches(|c: char| c.is_ascii_lowercase()).parse::<u32>();
        let count = if self.has("v8") {
            8
        } else if self.has("v4") {
            4
        } else if self.has("v2") {
            2
        } else {
            1
        };
        Some(bits.ok()? / 8 * count)
    }
}

/// One demand on a kernel's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Registers only: no local variables, no access to local memory.
    NoLocalMemory,
    /// Every access names its state space.
    NoGenericAccess,
    /// Everything is inlined.
    NoCalls,
    /// As many barriers as the source has.
    Barriers(usize),
    /// At least so many 16-byte accesses: operation (`ld`, `st`), state space, count.
    Wide(&'static str, &'static str, usize),
    /// At least so many of an instruction.
    AtLeast(&'static str, usize),
    /// None of an instruction.
    Never(&'static str),
}

/// A rule that a kernel breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kernel}: {what}{}", .line.map(|l| format!(" (line {l} of the PTX)")).unwrap_or_default())]
pub struct Broken {
    /// The kernel.
    pub kernel: String,
    /// The rule, and what was found instead.
    pub what: String,
    /// Line of the module's text.
    pub line: Option<usize>,
}

impl Rule {
    /// Tries the rule on a kernel.
    ///
    /// # Errors
    /// [`Broken`] names the kernel, what was found and where.
    pub fn check(self, kernel: &Entry) -> Result<(), Broken> {
        let first = |wanted: &dyn Fn(&Instruction) -> bool| kernel.instructions.iter().find(|i| wanted(i));
        let found = match self {
            Self::NoLocalMemory if kernel.has_local_variables => Some(("variables in local memory".to_owned(), None)),
            Self::NoLocalMemory => found(first(&|i| i.has("local")), "local memory is used"),
            Self::NoGenericAccess => found(first(&Instruction::is_generic_access), "generic access"),
            Self::NoCalls => found(first(&|i| i.is("call")), "a function is called"),
            Self::Never(opcode) => found(first(&|i| i.is(opcode)), "forbidden instruction"),
            Self::Barriers(want) => differs(kernel.barriers(), want, false, "barriers"),
            Self::AtLeast(opcode, want) => differs(kernel.count(opcode), want, true, opcode),
            Self::Wide(operation, space, want) => {
                differs(kernel.wide(operation, space), want, true, &format!("16-byte {operation}.{space}"))
            }
        };
        match found {
            None => Ok(()),
            Some((what, line)) => Err(Broken { kernel: kernel.name.clone(), what, line }),
        }
    }
}

type Found = Option<(String, Option<usize>)>;

fn found(instruction: Option<&Instruction>, what: &str) -> Found {
    instruction.map(|i| (format!("{what}: `{i}`"), Some(i.line)))
}

fn differs(got: usize, want: usize, more_is_fine: bool, what: &str) -> Found {
    let fine = if more_is_fine { got >= want } else { got == want };
    (!fine).then(|| (format!("{got} {what}, wanted {}{want}", if more_is_fine { "at least " } else { "" }), None))
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.opcode, self.operands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.version 7.8
.target sm_80
	// .globl	one
.func  (.param .b32 func_retval0) helper(
)
{
	ret;
}
.visible .entry one(
	.param .align 8 .b8 one_param_0[24]
)
.maxntid 256
.minnctapersm 4
{
	.reg .b32 	%r<8>;
	.local .align 16 .b8 	__local_depot0[16];
	ld.param.b64 	%rd1, [one_param_0+8];
	@%p1 bra 	$L__BB0_4;
	shfl.sync.bfly.b32 	%r1, %r2, 16, 31, -1;
$L__BB0_2:
	bar.sync 	0;
	// begin inline asm
	{ .reg .b32 t; barrier.cta.sync 1, 128; ld.shared::cta.v4.f32 {%f1,%f2,%f3,%f4}, [%r1]; }
	// end inline asm
	ld.global.v2.b64 	{%rd1, %rd2}, [%rd3];
	st.b32 	[%rd10], %r3;
	st.local.b32 	[%rd10], %r3;
	trap; exit;
}
";

    #[test]
    fn facts_are_read() {
        let ptx = Ptx::parse(TEXT);
        assert_eq!((ptx.version.as_str(), ptx.target.as_str()), ("7.8", "sm_80"));
        assert_eq!(ptx.functions, ["helper"]);
        let one = ptx.entry("one").expect("in the text");
        assert_eq!((one.max_threads, one.min_blocks, one.line), (Some(256), Some(4), 9));
        assert_eq!((one.barriers(), one.count("trap"), one.count("ld.global"), one.count("ld.glob")), (2, 1, 1, 0));
        assert_eq!((one.wide("ld", "shared"), one.wide("ld", "global"), one.wide("st", "global")), (1, 1, 0));
        assert_eq!(one.behind_branch("shfl.sync").map(|i| i.line), Some(19));
        assert_eq!(ptx.entry_at(20).map(|e| e.name.as_str()), Some("one"));
    }

    #[test]
    fn each_rule_can_fail() {
        let ptx = Ptx::parse(TEXT);
        let one = ptx.entry("one").expect("in the text");
        for rule in [
            Rule::NoLocalMemory,
            Rule::NoGenericAccess,
            Rule::Barriers(3),
            Rule::Wide("ld", "shared", 2),
            Rule::AtLeast("mma", 1),
            Rule::Never("trap"),
        ] {
            assert!(rule.check(one).is_err(), "{rule:?}");
        }
        for rule in [Rule::NoCalls, Rule::Barriers(2), Rule::Wide("ld", "shared", 1), Rule::Never("mma")] {
            assert_eq!(rule.check(one), Ok(()), "{rule:?}");
        }
        let told = Rule::NoGenericAccess.check(one).map_err(|b| b.to_string());
        assert_eq!(told, Err("one: generic access: `st.b32 [%rd10], %r3` (line 26 of the PTX)".into()));
    }
}
