//! Whole models against values that PyTorch computed: tests/golden/oracle/README.md.
#![allow(missing_docs, clippy::unwrap_used)]

mod oracle;
mod parts;
mod refusals;
mod rust15m;
mod tiny;
