//! What turns text into a model's tokens and back: tokenizer, chat template, and the tokens that end a reply.

use serde_json::Value;

use super::tokenizer::{Tokenizer, TokenizerError, Vocabulary};
use super::{Checkpoint, Metadata, OpenError, Strings};

/// The text side of a model.
#[derive(Debug)]
pub struct Text {
    /// Text to ids and back.
    pub tokenizer: Tokenizer,
    /// Source of the chat template; ChatML where the model has none but knows its tokens.
    pub template: Option<String>,
    /// Ids that end a reply.
    pub stop_ids: Vec<u32>,
}

/// ChatML: what models of this family are trained with.
const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
     {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// Its tokens; the second ends a message.
const CHATML_TOKENS: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

impl Text {
    /// Reads them from a checkpoint whose model has `vocab` ids.
    ///
    /// # Errors
    /// [`OpenError`] names the file, the key and the value.
    pub fn load(checkpoint: &Checkpoint, vocab: usize) -> Result<Self, OpenError> {
        let mut text = match checkpoint.gguf() {
            Some(metadata) => from_gguf(&checkpoint.name(), metadata)?,
            None => from_sidecars(checkpoint)?,
        };
        if let Some(id) = text.stop_ids.iter().find(|&&id| id as usize >= vocab) {
            let (file, rule) = (checkpoint.name(), format!("the vocabulary has {vocab} ids"));
            return Err(OpenError::Config { file, key: "eos_token_id".into(), got: id.to_string(), rule });
        }
        if text.tokenizer.len() > vocab {
            let what = format!("the tokenizer has {} ids, the embedding {vocab}", text.tokenizer.len());
            return Err(OpenError::Contradiction { file: checkpoint.name(), what });
        }
        let chatml = CHATML_TOKENS.map(|token| text.tokenizer.id(token));
        if let ([Some(_), Some(end)], None) = (chatml, &text.template) {
            tracing::info!("{}: no chat template; ChatML stands in for one", checkpoint.name());
            text.template = Some(CHATML.to_owned());
            if !text.stop_ids.contains(&end) {
                text.stop_ids.push(end);
            }
        }
        Ok(text)
    }
}

fn tokenizer(file: &str, made: Result<Tokenizer, TokenizerError>) -> Result<Tokenizer, OpenError> {
    made.map_err(|error| OpenError::Tokenizer { file: file.to_owned(), error: error.to_string() })
}

fn from_gguf(file: &str, metadata: &Metadata) -> Result<Text, OpenError> {
    let strings = |key: &str| Ok::<_, OpenError>(metadata.need::<&Strings>(key)?.iter().map(str::to_owned).collect());
    let types: Option<Vec<i32>> = metadata.find("tokenizer.ggml.token_type")?;
    let tokens: Vec<String> = strings("tokenizer.ggml.tokens")?;
    let vocabulary = Vocabulary {
        model: metadata.need::<&str>("tokenizer.ggml.model")?.to_owned(),
        pre: metadata.need::<&str>("tokenizer.ggml.pre")?.to_owned(),
        token_types: types.unwrap_or_else(|| vec![1; tokens.len()]),
        tokens,
        merges: strings("tokenizer.ggml.merges")?,
    };
    let mut stop_ids = Vec::new();
    for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
        stop_ids.extend(metadata.find::<u32>(key)?.filter(|id| !stop_ids.contains(id)));
    }
    let template = metadata.find::<&str>("tokenizer.chat_template")?.map(str::to_owned);
    Ok(Text { tokenizer: tokenizer(file, Tokenizer::from_vocabulary(vocabulary))?, template, stop_ids })
}

/// What lies beside safetensors.
pub(super) struct Sidecars {
    /// Content of `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// Source of the chat template, if there is one.
    pub template: Option<String>,
    /// Ids that end a reply.
    pub stop_ids: Vec<u32>,
}

impl Sidecars {
    /// Reads the files of the text side.
    pub fn read(checkpoint: &Checkpoint) -> Result<Self, OpenError> {
        let name = |file: &str| format!("{}/{file}", checkpoint.name());
        let json = |file: &str| -> Result<Option<Value>, OpenError> {
            let Some(bytes) = checkpoint.sidecar(file)? else { return Ok(None) };
            let parsed = serde_json::from_slice(&bytes);
            parsed.map(Some).map_err(|error| OpenError::Json { file: name(file), error: error.to_string() })
        };
        let Some(tokenizer) = checkpoint.sidecar("tokenizer.json")? else {
            let error = "it is not there: safetensors need their tokenizer beside them".to_owned();
            return Err(OpenError::Tokenizer { file: name("tokenizer.json"), error });
        };
        let template = match checkpoint.sidecar("chat_template.jinja")? {
            Some(bytes) => Some(String::from_utf8(bytes).map_err(|error| {
                let file = name("chat_template.jinja");
                OpenError::Contradiction { file, what: format!("it is not UTF-8: {error}") }
            })?),
            None => json("tokenizer_config.json")?.and_then(|config| default_template(config.get("chat_template")?)),
        };
        let generation = json("generation_config.json")?;
        let config = json("config.json")?;
        let stated = |root: &Option<Value>| {
            let root = root.as_ref()?;
            root.get("eos_token_id").or_else(|| root.get("text_config")?.get("eos_token_id")).map(ids)
        };
        let stop_ids = stated(&generation).or_else(|| stated(&config)).unwrap_or_default();
        Ok(Self { tokenizer, template, stop_ids })
    }
}

fn from_sidecars(checkpoint: &Checkpoint) -> Result<Text, OpenError> {
    let Sidecars { tokenizer: bytes, template, stop_ids } = Sidecars::read(checkpoint)?;
    let file = format!("{}/tokenizer.json", checkpoint.name());
    Ok(Text { tokenizer: tokenizer(&file, Tokenizer::from_json(&bytes))?, template, stop_ids })
}

/// One id, or a list of them.
fn ids(value: &Value) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Array(list) => list.iter().filter_map(id).collect(),
        one => id(one).into_iter().collect(),
    }
}

/// The template itself, or the one of several that is named `default`.
fn default_template(value: &Value) -> Option<String> {
    if let Some(list) = value.as_array() {
        let default = list.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))?;
        return default.get("template")?.as_str().map(str::to_owned);
    }
    value.as_str().map(str::to_owned)
}
