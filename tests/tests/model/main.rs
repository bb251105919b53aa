//! Whole models against values that PyTorch computed: tests/golden/oracle/README.md.
#![allow(missing_docs, clippy::unwrap_used)]

mod blocks;
mod export;
mod oracle;
mod parts;
mod perplexity;
mod refusals;
mod rust15m;
mod tiny;
