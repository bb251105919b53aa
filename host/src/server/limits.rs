//! Every limit of the server, with its default.

use std::time::Duration;

/// Levels of nesting in a JSON body.
pub const JSON_DEPTH: usize = 64;
/// Messages of a conversation.
pub const MESSAGES: usize = 4_096;
/// Stop texts of a request.
pub const STOP_TEXTS: usize = 16;
/// Bytes of a stop text.
pub const STOP_BYTES: usize = 256;
/// Entries of `logit_bias`.
pub const BIASES: usize = 1_024;
/// Bytes of request line and headers together.
pub const HEADER_BYTES: usize = 32 << 10;
/// Headers of a request; the HTTP parser needs a number.
pub const HEADERS: usize = 256;
/// Characters of a value that an error message repeats.
pub const SHOWN: usize = 64;
/// Names of unknown fields that `x-varve-ignored` lists.
pub const IGNORED_NAMES: usize = 32;
/// Chunks of a streamed reply that wait for a client that does not read.
pub const UNREAD_CHUNKS: usize = 256;
/// Time for which a closed connection still discards what its client sends, so that the client gets to read the reply.
pub const LINGER: Duration = Duration::from_secs(2);

/// The limits that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Time for the headers of a request, and for an idle connection.
    pub header_time: Duration,
    /// Time for the body of a request.
    pub body_time: Duration,
    /// Time that a request waits for its turn.
    pub queue_time: Duration,
    /// Time after which a client that reads nothing is given up.
    pub stall_time: Duration,
    /// Silence in a stream after which a comment is sent.
    pub keepalive: Duration,
    /// Time that running requests have at the end.
    pub drain_time: Duration,
    /// Connections at a time.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 16 << 20,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            queue_time: Duration::from_secs(600),
            stall_time: Duration::from_secs(30),
            keepalive: Duration::from_secs(10),
            drain_time: Duration::from_secs(30),
            connections: 256,
        }
    }
}
