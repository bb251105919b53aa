//! Replaced by the float part.
