//! What runs a model for clients: choosing tokens, ending replies.

pub mod sample;
pub mod stop;
