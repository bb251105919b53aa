use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::varve;

/// A running server, ended on drop.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// The model in the box, ready for requests.
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
            .args(["serve", "--device", "emulator", "--port", "0", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let server = Self { child, port: u16::try_from(told["port"].as_u64().unwrap()).unwrap() };
        let start = Instant::now();
        while server.ask("GET", "/health", "").0 != 200 {
            assert!(start.elapsed() < Duration::from_secs(120), "the server does not get ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// Status and body of a request.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn chat(&self, stream: bool) -> (u16, String) {
        let messages = json!([{"role": "user", "content": "fn main() {"}]);
        let body = json!({"messages": messages, "max_tokens": 6, "ignore_eos": true, "stream": stream});
        self.ask("POST", "/v1/chat/completions", &body.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_model_in_the_box_chats_whole_and_streamed_and_ends_on_a_signal() {
    let mut server = Server::start();
    let (status, body) = server.chat(false);
    let whole: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &whole["usage"]["completion_tokens"]), (200, &6.into()), "{body}");
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
    let (status, body) = server.chat(true);
    assert_eq!(status, 200, "{body}");
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<&str> = events.collect();
    assert_eq!(events.last(), Some(&"[DONE]"), "{body}");
    let pieces = events.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok());
    let piece = |event: Value| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
    assert_eq!(pieces.filter_map(piece).collect::<String>(), text);
    let (status, body) = server.ask("POST", "/v1/chat/completions", "{\"messages\": ");
    assert!(status == 400 && body.contains("malformed_json"), "{status}: {body}");
    let ended = Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap();
    assert!(ended.success());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_open_address_needs_keys() {
    varve(&["serve", "--host", "0.0.0.0", "--port", "0"]).refused_naming(&["0.0.0.0", "--api-key-file", "--no-auth"]);
    varve(&["serve", "--host", "example.org"]).refused_naming(&["example.org"]);
    varve(&["serve", "--chunk", "0"]).refused_naming(&["--chunk"]);
}
