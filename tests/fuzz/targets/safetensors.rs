//! Any bytes as a safetensors file: read or refused, and what is read fills the file behind its header.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match varve::model::safetensors::parse("fuzz.safetensors", bytes) {
        Ok(file) => {
            let data: usize = file.tensors.iter().map(|tensor| bytes[tensor.range()].len()).sum();
            let header = bytes.first_chunk().map(|length| u64::from_le_bytes(*length));
            assert_eq!(Some((bytes.len() - data) as u64), header.map(|length| length + 8));
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
});
