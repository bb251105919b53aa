//! Reads the oracle files and loads models from them.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use safetensors::SafeTensors;
use varve::backend::{Device, DeviceSpec};
use varve::environment::Environment;
use varve::model::{Checkpoint, LoadOptions, Model};
use varve::ops::qsa_cells::CellKind;

/// The tests' folder: that of the build, or on another machine the one below the working directory.
fn home() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    if built.exists() { built.to_owned() } else { PathBuf::from("tests") }
}

/// The folder of a model's oracle files.
pub fn folder(model: &str) -> PathBuf {
    home().join("golden/oracle").join(model)
}

/// A folder beside the project, which some checkouts have.
pub fn beside(path: &str) -> Option<PathBuf> {
    let candidates = [home().join("../../shared").join(path), Path::new("shared").join(path)];
    candidates.into_iter().find(|path| path.exists())
}

fn unpacked(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let packed = std::fs::File::open(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Both tiny models, unpacked once for this process.
fn models() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let root = std::env::temp_dir().join(format!("varve-oracle-{}", std::process::id()));
        for (model, gguf) in [("qwen4_exp_tiny", "model-q8_0.gguf"), ("qwen35_tiny", "model-mixed.gguf")] {
            let (from, to) = (folder(model), root.join(model));
            std::fs::create_dir_all(to.join("hf")).unwrap();
            std::fs::copy(from.join("config.json"), to.join("hf/config.json")).unwrap();
            // The one tokenizer of the tiny models: both have 1,024 ids.
            std::fs::copy(folder("qwen4_exp_tiny").join("tokenizer.json"), to.join("hf/tokenizer.json")).unwrap();
            std::fs::write(to.join("hf/model.safetensors"), unpacked(&from.join("model.safetensors.gz"))).unwrap();
            std::fs::write(to.join("model.gguf"), unpacked(&from.join(format!("{gguf}.gz")))).unwrap();
        }
        root
    })
}

/// The two files of each model: safetensors with their configuration, and GGUF.
pub const FILES: [&str; 2] = ["hf", "model.gguf"];

/// Path of a model's file.
pub fn path(model: &str, file: &str) -> PathBuf {
    models().join(model).join(file)
}

/// The device that the environment names, the emulator if it names none.
pub fn device() -> Device {
    Environment::read().unwrap().open(None, DeviceSpec::Emulator).unwrap()
}

/// A model whose passes have up to `chunk` tokens, and whose products do not round: neither do the oracle's.
pub fn load(model: &str, file: &str, chunk: usize) -> Model {
    let checkpoint = Checkpoint::open(&path(model, file)).unwrap();
    let options =
        LoadOptions { context: Some(512), chunk, exact_products: true, cells: CellKind::F32, ..LoadOptions::default() };
    Model::load(&checkpoint, &device(), &options, &mut |_, _| ()).unwrap()
}

/// The expected values of a model.
pub struct Oracle(Vec<u8>);

impl Oracle {
    pub fn open(model: &str) -> Self {
        let plain = folder(model).join("oracle.safetensors");
        Self(std::fs::read(plain).unwrap_or_else(|_| unpacked(&folder(model).join("oracle.safetensors.gz"))))
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}")).data().to_vec()
    }

    pub fn f32(&self, name: &str) -> Vec<f32> {
        self.bytes(name).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn i32(&self, name: &str) -> Vec<i32> {
        self.bytes(name).chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn i64(&self, name: &str) -> Vec<i64> {
        self.bytes(name).chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn tokens(&self, n: usize) -> Vec<u32> {
        self.i64(&format!("seq{n}.tokens")).into_iter().map(|id| id as u32).collect()
    }
}

/// The largest difference; NaN counts as infinite.
pub fn distance(got: &[f32], wanted: &[f32]) -> f64 {
    assert_eq!(got.len(), wanted.len());
    let difference = |(a, b): (&f32, &f32)| {
        let d = (f64::from(*a) - f64::from(*b)).abs();
        if d.is_nan() { f64::INFINITY } else { d }
    };
    got.iter().zip(wanted).map(difference).fold(0.0, f64::max)
}

/// The lowest id among the largest logits.
pub fn argmax(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    best.unwrap() as u32
}

/// The last rows of `got` that `wanted` covers.
pub fn tail<'a>(got: &'a [f32], wanted: &[f32]) -> &'a [f32] {
    &got[got.len() - wanted.len()..]
}
