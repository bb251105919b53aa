//! Connections that are slow, endless, too large or wrong.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use varve::engine::Options;
use varve::server::{Config, limits::Limits};

use super::client::{CHAT, Connection, exchange, get, head, post, request};
use super::rig::{Rig, chat};
use super::script::{Says, Script};

fn with(limits: Limits) -> Rig {
    Rig::with(Script::new(Says::Text("ok")), Config { limits, ..Config::default() }, Options::default())
}

fn hasty() -> Rig {
    let (header_time, body_time) = (Duration::from_millis(300), Duration::from_millis(300));
    with(Limits { header_time, body_time, ..Limits::default() })
}

#[test]
fn headers_that_do_not_end_get_408() {
    let rig = hasty();
    let mut connection = Connection::open(rig.address);
    let start = Instant::now();
    for byte in head("POST", CHAT, "").as_bytes().iter().take(40) {
        connection.send([*byte]);
        sleep(Duration::from_millis(20));
    }
    let reply = connection.reply();
    assert_eq!((reply.status, reply.code().as_str()), (408, "request_timeout"));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(post(rig.address, CHAT, &chat("x", json!({}))).content(), "ok");
}

#[test]
fn an_idle_connection_closes_without_a_word() {
    let rig = hasty();
    let reply = Connection::open(rig.address).reply();
    assert_eq!((reply.status, reply.head.as_str()), (0, ""));
}

#[test]
fn bodies_that_do_not_end_get_408() {
    let rig = hasty();
    let json = "Content-Type: application/json\r\n";
    for start in [
        head("POST", CHAT, &format!("{json}Transfer-Encoding: chunked\r\n")) + "5\r\n{\"mes\r\n",
        head("POST", CHAT, &format!("{json}Content-Length: 1000\r\n")) + "{\"messages\":",
    ] {
        let reply = exchange(rig.address, start);
        assert_eq!((reply.status, reply.code().as_str()), (408, "request_timeout"));
        assert_eq!(reply.header("connection"), Some("close"));
    }
    assert_eq!(get(rig.address, "/health").status, 200);
}

#[test]
fn bodies_are_read_up_to_the_limit() {
    let limit = 100_000;
    let rig = with(Limits { body_bytes: limit, ..Limits::default() });
    let padded = |bytes: usize| {
        let body = chat("x", json!({"pad": ""})).to_string();
        body.replace("\"pad\":\"\"", &format!("\"pad\":\"{}\"", "p".repeat(bytes - body.len())))
    };
    for (bytes, status) in [(limit - 1, 200), (limit, 200), (limit + 1, 413)] {
        assert_eq!(exchange(rig.address, request(CHAT, padded(bytes))).status, status, "{bytes}");
        let body = padded(bytes);
        let more = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
        let chunked = format!("{}{:x}\r\n{body}\r\n0\r\n\r\n", head("POST", CHAT, more), body.len());
        let reply = exchange(rig.address, chunked);
        assert_eq!(reply.status, status, "{bytes} in chunks");
        if status == 413 {
            assert_eq!((reply.code().as_str(), &reply.error()["limit"]), ("body_too_large", &json!(limit)));
        }
    }
}

#[test]
fn endless_chunks_are_answered_and_not_stored() {
    let rig = with(Limits::default());
    let mut connection = Connection::open(rig.address);
    connection.send(head("POST", CHAT, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"));
    let block = [b"100000\r\n".as_slice(), &vec![b'a'; 1 << 20], b"\r\n"].concat();
    for _ in 0..64 {
        connection.send(&block);
    }
    let reply = connection.reply();
    assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
}

#[test]
fn a_promise_beyond_the_limit_is_refused_unread() {
    let rig = with(Limits::default());
    let more = "Content-Type: application/json\r\nContent-Length: 1073741824\r\n";
    let reply = exchange(rig.address, head("POST", CHAT, more));
    assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
}

#[test]
fn headers_are_bounded() {
    let rig = with(Limits::default());
    let long = |bytes: usize| exchange(rig.address, head("GET", "/live", &format!("x-pad: {}\r\n", "p".repeat(bytes))));
    assert_eq!(long(30_000).status, 200);
    let reply = long(33_000);
    assert_eq!((reply.status, reply.code().as_str()), (431, "headers_too_large"));
    assert_eq!(long(1 << 20).status, 431);
    let many: String = (0..1_000).map(|i| format!("x-{i}: 1\r\n")).collect();
    assert_eq!(exchange(rig.address, head("GET", "/live", &many)).status, 431);
}

#[test]
fn requests_that_are_no_http_get_400() {
    let rig = with(Limits::default());
    let body = chat("x", json!({})).to_string();
    let two = format!("Content-Type: application/json\r\nContent-Length: {}\r\nContent-Length: 5\r\n", body.len());
    assert_eq!(exchange(rig.address, head("POST", CHAT, &two) + &body).status, 400);
    assert_eq!(exchange(rig.address, "no http at all\r\n\r\n").status, 400);
    assert_eq!(exchange(rig.address, [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x0a, 0x0d, 0x0a]).status, 400, "TLS");
    assert_eq!(get(rig.address, "/health").status, 200);
}

#[test]
fn more_connections_wait_for_a_place() {
    let rig = with(Limits { connections: 2, ..Limits::default() });
    let (first, second) = (Connection::open(rig.address), Connection::open(rig.address));
    let mut third = Connection::open(rig.address);
    third.send(head("GET", "/live", ""));
    third.0.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(std::io::Read::read(&mut &third.0, &mut [0; 1]).is_err(), "two are the limit");
    drop((first, second));
    third.0.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(third.reply().status, 200);
}
