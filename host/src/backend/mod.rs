//! One face over the two things that run kernels: an NVIDIA GPU through the driver, and the emulator.

pub mod driver_slots;
mod driver_symbols;
