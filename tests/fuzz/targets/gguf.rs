//! Any bytes as a GGUF file: read or refused, and what is read lies in the file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match varve::model::gguf::parse("fuzz.gguf", bytes) {
        Ok(file) => {
            for (key, value) in file.metadata.iter() {
                assert_eq!(file.metadata.value(key).map(ToString::to_string), Some(value.to_string()));
            }
            assert!(file.tensors.iter().all(|tensor| bytes.get(tensor.range()).is_some_and(|data| !data.is_empty())));
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
});
