//! Whole models against values that PyTorch computed: tests/golden/oracle/README.md.

mod oracle;
mod parts;
mod refusals;
mod rust15m;
mod tiny;
