//! Checkpoints on disk: single files, folders, split GGUF sets, safetensors with an index.

use std::path::{Path, PathBuf};

use varve::model::{Checkpoint, DType, Format, LoadError};

use crate::gguf_builder::{self, File, Info, T_F32, T_Q8_0};
use crate::refused;
use crate::safetensors_builder::{self, entry};

/// A fresh folder of this name.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loader").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Opening is refused with one message that holds the words.
fn refused(case: &str, path: &Path, words: &[&str]) -> LoadError {
    let Err(error) = Checkpoint::open(path) else { panic!("{case}: {} was accepted", path.display()) };
    let message = refused::hold(&error);
    for word in words {
        assert!(message.contains(word), "{case}: `{word}` is missing from: {message}");
    }
    error
}

/// The first file of a set of two, with metadata and a tensor.
fn first() -> File {
    let file = File::new().text("general.architecture", "qwen35").tensor(Info::new("b", &[16], T_F32, 64));
    file.u16("split.no", 0).u16("split.count", 2).u32("split.tensors.count", 3)
}

/// The second, with two tensors.
fn second(no: u16) -> File {
    let file = File::new().u16("split.no", no).u16("split.count", 2).u32("split.tensors.count", 3);
    file.tensor(Info::new("a", &[64, 2], T_Q8_0, 136)).tensor(Info::new("c", &[8], T_F32, 32))
}

#[test]
fn a_gguf_file_gives_names_shapes_and_bytes() {
    let path = write(&folder("single"), "tiny-q8_0.gguf", gguf_builder::base().build());
    let checkpoint = Checkpoint::open(&path).unwrap();
    assert_eq!((checkpoint.format(), checkpoint.name().as_str()), (Format::Gguf, "tiny-q8_0"));
    let tensor = checkpoint.tensor("b.weight").unwrap();
    assert_eq!((tensor.dtype, tensor.shape.as_slice(), tensor.n_elements()), (DType::Q8_0, &[2, 64][..], 128));
    assert_eq!(checkpoint.bytes(tensor), Info::new("", &[], 0, 136).data);
    assert!(checkpoint.tensor("b").is_none());
    let names: Vec<_> = checkpoint.tensors().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["a.weight", "b.weight", "c.bias", "d.weight"]);
    assert_eq!(checkpoint.gguf().unwrap().need::<&str>("general.architecture").unwrap(), "qwen35");
    assert!(checkpoint.sidecar("tokenizer.json").unwrap().is_none());
    // A folder with nothing else means the file, and is the model's name.
    assert_eq!(Checkpoint::open(path.parent().unwrap()).unwrap().name(), "single");
}

#[test]
fn a_gguf_in_the_program_may_lie_at_any_address() {
    let whole = gguf_builder::base().build();
    for shift in 0..4 {
        let shifted: &'static [u8] = [vec![0; shift], whole.clone()].concat().leak();
        let checkpoint = Checkpoint::from_static("in the box", &shifted[shift..]).unwrap();
        assert_eq!(checkpoint.name(), "in the box");
        let tensor = checkpoint.tensor("d.weight").unwrap();
        assert_eq!(checkpoint.bytes(tensor), Info::new("", &[], 0, 128).data);
    }
    let error = Checkpoint::from_static("in the box", b"GGUF").unwrap_err();
    assert!(error.to_string().starts_with("in the box: "), "{error}");
}

#[test]
fn any_file_of_a_split_set_opens_the_whole() {
    let folder = folder("pair");
    let paths = [
        write(&folder, "m-00001-of-00002.gguf", first().build()),
        write(&folder, "m-00002-of-00002.gguf", second(1).build()),
    ];
    for path in paths.iter().chain([&folder]) {
        let checkpoint = Checkpoint::open(path).unwrap();
        assert_eq!(checkpoint.name(), if path == &folder { "pair" } else { "m" });
        let names: Vec<_> = checkpoint.tensors().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let architecture = checkpoint.gguf().unwrap().need::<&str>("general.architecture").unwrap();
        assert_eq!(architecture, "qwen35", "of the first file, whichever was opened");
        for (name, len, file) in [("a", 136, 2), ("b", 64, 1), ("c", 32, 2)] {
            let tensor = checkpoint.tensor(name).unwrap();
            assert_eq!(checkpoint.bytes(tensor), Info::new("", &[], 0, len).data);
            assert!(checkpoint.file_of(tensor).ends_with(&format!("m-0000{file}-of-00002.gguf")));
        }
    }
}

#[test]
fn split_sets_that_contradict_themselves_are_refused() {
    let pair = |name: &str, second: Option<File>| {
        let folder = folder(name);
        let paths = [folder.join("m-00001-of-00002.gguf"), folder.join("m-00002-of-00002.gguf")];
        std::fs::write(&paths[0], first().build()).unwrap();
        if let Some(second) = second {
            std::fs::write(&paths[1], second.build()).unwrap();
        }
        paths
    };
    let [lone, _] = pair("lone", None);
    refused("L26 lone", &lone, &["`m-00002-of-00002.gguf` is missing"]);
    for path in pair("dup", Some(second(0))) {
        refused("L26 dup", &path, &["m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "both say split.no = 0"]);
    }
    let short = second(1).u32("x", 1);
    let short = File { n_tensors: Some(0), ..short };
    for path in pair("total", Some(short)) {
        refused("total", &path, &["split.tensors.count = 3", "hold 1"]);
    }
    for path in pair("alien", Some(File::new())) {
        // Opened by itself the second is a whole model, and sound.
        if path.ends_with("m-00001-of-00002.gguf") {
            refused("alien", &path, &["m-00002-of-00002.gguf", "`split.count`"]);
        }
    }
    for path in pair("twice", Some(second(1).tensor(Info::new("b", &[4], T_F32, 16)).u32("y", 0))) {
        refused("twice", &path, &[]);
    }
    let [path, _] = pair("no", Some(second(7)));
    refused("number", &path, &["`split.no` is 7", "below split.count"]);
    let three = File::new().u16("split.no", 1).u16("split.count", 3);
    let [path, _] = pair("count", Some(three));
    refused("count", &path, &["split.count = 3", "2 files"]);
    let renamed = write(&folder("renamed"), "model.gguf", first().build());
    refused("renamed", &renamed, &["file 1 of 2", "-00001-of-00002.gguf"]);
    let folder = folder("swapped");
    let path = write(&folder, "m-00001-of-00002.gguf", second(1).build());
    write(&folder, "m-00002-of-00002.gguf", first().build());
    refused("swapped", &path, &["split.no = 1", "its name says 0"]);
}

#[test]
fn a_tensor_of_two_files_is_refused() {
    let folder = folder("shared");
    let with = |no: u16| {
        let file = File::new().u16("split.no", no).u16("split.count", 2);
        file.tensor(Info::new("same", &[16], T_F32, 64)).build()
    };
    let path = write(&folder, "m-00001-of-00002.gguf", with(0));
    write(&folder, "m-00002-of-00002.gguf", with(1));
    refused("shared", &path, &["m-00002-of-00002.gguf", "`same` appears twice"]);
}

/// A folder with two shards of a tensor each, and this map of tensors to shards.
fn sharded(name: &str, map: &str) -> PathBuf {
    let folder = folder(name);
    for shard in ["x", "y"] {
        let tensor = entry(shard, "F32", "[4]", 0, 16);
        write(&folder, &format!("{shard}.safetensors"), safetensors_builder::file(&[tensor], 16));
    }
    write(
        &folder,
        "model.safetensors.index.json",
        format!(r#"{{"metadata":{{"total_size":32}},"weight_map":{{{map}}}}}"#),
    );
    folder
}

#[test]
fn an_index_opens_its_shards() {
    let folder = sharded("sharded", r#""x":"x.safetensors","y":"y.safetensors""#);
    write(&folder, "config.json", "{}");
    for path in [folder.clone(), folder.join("model.safetensors.index.json")] {
        let checkpoint = Checkpoint::open(&path).unwrap();
        assert_eq!(checkpoint.format(), Format::Safetensors);
        assert_eq!(checkpoint.files().count(), 2);
        let tensors: Vec<_> = checkpoint.tensors().map(|t| (t.name.as_str(), checkpoint.bytes(t).len())).collect();
        assert_eq!(tensors, [("x", 16), ("y", 16)]);
        assert_eq!(checkpoint.sidecar("config.json").unwrap().unwrap(), b"{}");
        assert!(checkpoint.sidecar("tokenizer.json").unwrap().is_none());
        assert!(checkpoint.gguf().is_none());
    }
}

#[test]
fn an_index_that_contradicts_its_shards_is_refused() {
    let missing = sharded("missing", r#""x":"x.safetensors","y":"z.safetensors""#);
    refused("L28 missing shard", &missing, &["index.json", "`z.safetensors` is missing"]);
    let absent = sharded("absent", r#""x":"x.safetensors","y":"y.safetensors","w":"y.safetensors""#);
    refused("not in its shard", &absent, &["`w`", "`y.safetensors`", "does not hold it"]);
    let unlisted = sharded("unlisted", r#""x":"x.safetensors""#);
    write(&unlisted, "x.safetensors", {
        let tensors = [entry("x", "F32", "[4]", 0, 16), entry("extra", "F32", "[4]", 16, 32)];
        safetensors_builder::file(&tensors, 32)
    });
    refused("not in the index", &unlisted, &["`extra`", "`x.safetensors`", "not listed"]);
    let crossed = sharded("crossed", r#""x":"y.safetensors","y":"x.safetensors""#);
    refused("crossed", &crossed, &["is not listed"]);
    let outside = sharded("outside", r#""x":"../sharded/x.safetensors""#);
    refused("outside", &outside, &["no file name beside the index"]);
}

#[test]
fn what_is_no_model_is_said_as_such() {
    let folder = folder("none");
    refused("empty folder", &folder, &["holds no .safetensors and no .gguf"]);
    refused("nowhere", &folder.join("nowhere.gguf"), &["nowhere.gguf", "No such file"]);
    let text = write(&folder, "notes.txt", "hello");
    refused("text", &text, &["notes.txt", "neither a GGUF file"]);
    let blob = write(&folder, "blob", gguf_builder::base().build());
    assert_eq!(Checkpoint::open(&blob).unwrap().format(), Format::Gguf, "known by its first bytes");
    write(&folder, "a.gguf", gguf_builder::base().build());
    write(&folder, "b.gguf", gguf_builder::base().build());
    refused("two files", &folder, &["several models", "a.gguf", "b.gguf"]);
    refused("device", Path::new("/dev/zero"), &["no regular file"]);
    let disguised = write(&folder, "c.gguf", safetensors_builder::base());
    refused("disguised", &disguised, &["c.gguf", "not a GGUF file"]);
}
