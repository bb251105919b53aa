//! Operations: each checks shapes, walks its dispatch table and launches. A file an operation.

pub mod card;
pub mod delta_commit;
pub mod delta_out_norm;
pub mod delta_rec;
mod delta_sizes;
pub mod dispatch;
pub mod exactness;

pub use delta_sizes::{DeltaSizes, LogGate};

/// An operation by name, with its variants, most wanted first.
pub type Listed = (&'static str, Vec<&'static str>);

/// Every operation.
#[must_use]
pub fn list() -> Vec<Listed> {
    vec![delta_rec::DELTA_REC.listed(), delta_commit::DELTA_COMMIT.listed(), delta_out_norm::DELTA_OUT_NORM.listed()]
}

/// Checks that every operation and variant that the switches name exists.
///
/// # Errors
/// [`dispatch::OpError::NoVariant`] lists the operation's variants, [`dispatch::OpError::NoOp`] the operations.
pub fn check_switches(switches: &dispatch::Switches) -> Result<(), dispatch::OpError> {
    let all = list();
    for (name, variant) in switches.named() {
        let Some((op, variants)) = all.iter().find(|(op, _)| *op == name) else {
            let known = all.iter().map(|(op, _)| *op).collect::<Vec<_>>().join(", ");
            return Err(dispatch::OpError::NoOp { name: name.to_owned(), known });
        };
        if !variants.contains(&variant) {
            return Err(dispatch::OpError::NoVariant { op, name: variant.to_owned(), known: variants.join(", ") });
        }
    }
    Ok(())
}
