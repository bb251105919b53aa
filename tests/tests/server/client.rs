//! HTTP/1.1 over a plain socket, so that requests may be as wrong as a test wants.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

pub const CHAT: &str = "/v1/chat/completions";
pub const TEXT: &str = "/v1/completions";

/// A reply, its body without chunk framing.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn error(&self) -> Value {
        assert!(self.head.contains("content-type: application/json"), "{self:?}");
        self.json()["error"].clone()
    }

    pub fn code(&self) -> String {
        self.error()["code"].as_str().unwrap().to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.split_once(": ").filter(|(n, _)| *n == name).map(|(_, value)| value))
    }

    /// The data of a stream: its JSON objects, and whether it ended with `[DONE]`.
    pub fn events(&self) -> (Vec<Value>, bool) {
        let data: Vec<&str> = self.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        let done = data.last() == Some(&"[DONE]");
        let objects = data.iter().filter(|data| **data != "[DONE]").map(|data| serde_json::from_str(data).unwrap());
        (objects.collect(), done)
    }

    /// The text of a streamed chat.
    pub fn streamed(&self) -> String {
        let text = |event: &Value| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
        self.events().0.iter().map(text).collect()
    }

    /// The text of a whole chat.
    pub fn content(&self) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }
}

pub struct Connection(pub TcpStream);

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(stream)
    }

    /// Sends; a server that has closed already is no error, its reply may be there.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        match self.0.write_all(bytes.as_ref()) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("{error}")
            }
            _ => {}
        }
    }

    /// Reads until `end` occurs.
    pub fn read_until(&mut self, end: &str) -> String {
        let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&read).contains(end) {
            let n = self.0.read(&mut buffer).unwrap();
            assert!(n > 0, "closed before {end:?}: {}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&buffer[..n]);
        }
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Reads a reply to the connection's end.
    pub fn reply(mut self) -> Reply {
        let mut read = Vec::new();
        match self.0.read_to_end(&mut read) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("no end: {error}"),
            _ => {}
        }
        let head_end = read.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(read.len());
        let head = String::from_utf8_lossy(&read[..head_end]).into_owned();
        let body = &read[(head_end + 4).min(read.len())..];
        let body = if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_vec() };
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Reply { status, head, body: String::from_utf8(body).expect("replies are UTF-8") }
    }
}

fn unchunked(mut framed: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = framed.windows(2).position(|w| w == b"\r\n") {
        let len = usize::from_str_radix(std::str::from_utf8(&framed[..end]).unwrap(), 16).unwrap();
        let chunk = &framed[end + 2..];
        if len == 0 || chunk.len() < len + 2 {
            break;
        }
        body.extend_from_slice(&chunk[..len]);
        framed = &chunk[len + 2..];
    }
    body
}

/// The head of a request that closes its connection.
pub fn head(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n")
}

/// A whole request with a JSON body.
pub fn request(path: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    [head("POST", path, &more).as_bytes(), body].concat()
}

pub fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Reply {
    let mut connection = Connection::open(address);
    connection.send(bytes);
    connection.reply()
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Reply {
    exchange(address, request(path, body.to_string()))
}

pub fn get(address: SocketAddr, path: &str) -> Reply {
    exchange(address, head("GET", path, ""))
}
