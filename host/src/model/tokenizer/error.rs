//! Why a vocabulary or a text was refused.

/// A tokenizer that could not be built, or a text that could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file is not JSON, or not a tokenizer file.
    #[error("tokenizer.json cannot be read: {0}; fetch the file again")]
    Json(#[from] serde_json::Error),
    /// A kind of tokenizer that this program does not have.
    #[error("the tokenizer's {what} is `{got}`; supported is {wanted}")]
    Unsupported {
        /// The setting.
        what: &'static str,
        /// Its value.
        got: String,
        /// What would be accepted.
        wanted: &'static str,
    },
    /// Lists that must be as long as the token list.
    #[error("the vocabulary has {tokens} tokens but {got} {what}: the file is damaged")]
    Length {
        /// The list.
        what: &'static str,
        /// Its length.
        got: usize,
        /// Tokens of the vocabulary.
        tokens: usize,
    },
    /// No token at all.
    #[error("the vocabulary has no tokens")]
    Empty,
    /// An id, or a count of tokens, beyond any known vocabulary.
    #[error("token `{token}` has id {id}; ids up to {limit} are supported: the file is damaged")]
    IdOutside {
        /// The token.
        token: String,
        /// Its id.
        id: u64,
        /// Largest accepted id.
        limit: u32,
    },
    /// One text under two ids.
    #[error("token `{token}` is in the vocabulary twice, as ids {first} and {second}")]
    DuplicateToken {
        /// The token.
        token: String,
        /// Lower id.
        first: u32,
        /// Higher id.
        second: u32,
    },
    /// Two texts under one id.
    #[error("id {id} stands for two tokens, `{first}` and `{second}`")]
    DuplicateId {
        /// The id.
        id: u32,
        /// The token that had it.
        first: String,
        /// The token that claims it too.
        second: String,
    },
    /// A token type that a byte-level vocabulary does not have.
    #[error(
        "token {id} (`{token}`) has type {got}; known are 1 normal, 2 unknown, 3 control, 4 user-defined and 5 unused"
    )]
    TokenType {
        /// The token's id.
        id: u32,
        /// The token.
        token: String,
        /// Its type.
        got: i32,
    },
    /// A merge that is not two tokens with a space between them.
    #[error("merge {index} is `{merge}`; wanted are two tokens with one space between them")]
    MergeForm {
        /// Index in the list of merges.
        index: usize,
        /// The merge.
        merge: String,
    },
    /// A merge of or to a token that the vocabulary lacks.
    #[error("merge {index} (`{left}` and `{right}`) names `{missing}`, which is not in the vocabulary")]
    MergeToken {
        /// Index in the list of merges.
        index: usize,
        /// First part.
        left: String,
        /// Second part.
        right: String,
        /// The part or the result that is missing.
        missing: String,
    },
    /// An added token without text, or with a matching rule that is not supported.
    #[error("added token {id} (`{token}`) {fault}")]
    Added {
        /// Its id.
        id: u32,
        /// Its text.
        token: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The tokenizer library refused a part of the file, or a text.
    #[error("{what}: {message}")]
    Library {
        /// What was being done.
        what: &'static str,
        /// The library's message.
        message: String,
    },
}
