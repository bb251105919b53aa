//! Launch bounds: `static __launch_bounds_<kernel>: [u32; 2] = [threads, min_blocks]`, which `#[kernel]` emits, becomes
//! the attributes from which LLVM writes `.maxntid` and `.minnctapersm`; `static __cluster_<kernel>: u32` that for
//! `.reqnctapercluster`.

use crate::error::BuildError;
use crate::llvm::{Function, Module};

const PREFIX: &str = "__launch_bounds_";
const CLUSTER: &str = "__cluster_";
/// Threads of a block on every card.
const MAX_THREADS: u32 = 1024;

/// Sets the attributes. The statics go afterwards: `exports` makes them private and nothing uses them.
pub(crate) fn run(module: &Module<'_>) -> Result<(), BuildError> {
    let kernels: Vec<Function<'_>> = module.functions().into_iter().filter(Function::is_kernel).collect();
    let named = |symbol: &str| kernels.iter().find(|k| k.name() == symbol);
    let refused = |symbol: &str, why: &str| BuildError::Bounds { kernel: symbol.to_owned(), why: why.to_owned() };
    for global in module.globals() {
        let name = global.name();
        let bytes = || global.bytes().unwrap_or_default();
        if let Some(symbol) = name.strip_prefix(CLUSTER) {
            let refuse = |why| refused(symbol, why);
            let kernel = named(symbol).ok_or_else(|| refuse("there is no kernel of that name to be in clusters"))?;
            let blocks = bytes().try_into().map_err(|_| refuse("the static of its clusters is no u32"))?;
            kernel.set_attribute("nvvm.cluster_dim", &format!("{},1,1", u32::from_le_bytes(blocks)));
        }
        let Some(symbol) = name.strip_prefix(PREFIX) else { continue };
        let refuse = |why: &str| refused(symbol, why);
        let kernel = named(symbol).ok_or_else(|| refuse("there is no kernel of that name"))?;
        let [threads, min_blocks] =
            words(&bytes()).ok_or_else(|| refuse("the static is not a [u32; 2] with a constant value"))?;
        if threads == 0 || threads > MAX_THREADS {
            return Err(refuse(&format!("{threads} threads a block, must be 1 to {MAX_THREADS}")));
        }
        kernel.set_attribute("nvvm.maxntid", &threads.to_string());
        if min_blocks > 0 {
            kernel.set_attribute("nvvm.minctasm", &min_blocks.to_string());
        }
    }
    Ok(())
}

/// Two little-endian words.
fn words(bytes: &[u8]) -> Option<[u32; 2]> {
    let (low, high) = (bytes.get(..4)?, bytes.get(4..)?);
    Some([u32::from_le_bytes(low.try_into().ok()?), u32::from_le_bytes(high.try_into().ok()?)])
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_little_endian_and_exactly_two() {
        assert_eq!(words(&[0, 1, 0, 0, 12, 0, 0, 0]), Some([256, 12]));
        assert_eq!(words(&[0, 1, 0, 0]), None);
        assert_eq!(words(&[0; 12]), None);
    }
}
