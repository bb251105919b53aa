//! Operations: each checks shapes, walks its dispatch table and launches. A file an operation.

pub mod card;
pub mod delta_commit;
pub mod delta_out_norm;
pub mod delta_rec;
mod delta_sizes;
pub mod dispatch;
pub mod exactness;

pub use delta_sizes::{DeltaSizes, LogGate};

/// Checks that every operation and variant that the switches name exists.
///
/// # Errors
/// [`dispatch::OpError::NoVariant`] lists the operation's variants, [`dispatch::OpError::NoOp`] the operations.
pub fn check_switches(switches: &dispatch::Switches) -> Result<(), dispatch::OpError> {
    for (op, variant) in switches.named() {
        let found = match op {
            _ if op == delta_rec::DELTA_REC.op => delta_rec::DELTA_REC.row(variant).map(|_| ()),
            _ if op == delta_commit::DELTA_COMMIT.op => delta_commit::DELTA_COMMIT.row(variant).map(|_| ()),
            _ if op == delta_out_norm::DELTA_OUT_NORM.op => delta_out_norm::DELTA_OUT_NORM.row(variant).map(|_| ()),
            _ => Err(dispatch::OpError::NoOp {
                name: op.to_owned(),
                known: [delta_rec::DELTA_REC.op, delta_commit::DELTA_COMMIT.op, delta_out_norm::DELTA_OUT_NORM.op]
                    .join(", "),
            }),
        };
        found?;
    }
    Ok(())
}
