//! Replaced by the int part.
