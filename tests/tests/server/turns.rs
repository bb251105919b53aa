//! One request after the other: order, limits of the queue, and clients that leave.

use std::sync::mpsc;
use std::thread::{scope, sleep};
use std::time::Duration;

use serde_json::{Value, json};
use varve::engine::Options;
use varve::server::{Config, limits::Limits};

use super::client::{CHAT, Connection, get, post, request};
use super::rig::{Rig, chat};
use super::script::{Says, Script};

/// Time of a call of the model, in ms.
const CALL: u64 = 20;

fn endless(more: Value) -> Value {
    let mut body = chat("x", json!({"max_tokens": 1_000, "ignore_eos": true}));
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn slow(says: Says, queue: usize, limits: Limits) -> Rig {
    let options = Options { queue, chunk: 4 };
    Rig::with(Script::new(says).slow(CALL), Config { limits, ..Config::default() }, options)
}

/// The model is called at most `more` times from now on, and the engine is idle soon.
fn frees_the_engine(rig: &Rig, more: usize) {
    let calls = rig.script.count();
    rig.until(|rig| rig.engine.is_idle());
    sleep(Duration::from_millis(4 * CALL));
    assert!(rig.script.count() <= calls + more, "{} calls after the client left", rig.script.count() - calls);
}

#[test]
fn a_client_that_leaves_frees_the_engine_within_a_token() {
    let rig = slow(Says::Alphabet, 8, Limits::default());
    for stream in [true, false] {
        let mut connection = Connection::open(rig.address);
        connection.send(request(CHAT, endless(json!({"stream": stream})).to_string()));
        let calls = rig.script.count();
        // 20 prompt tokens are five calls: seven are in decode.
        rig.until(|rig| rig.script.count() >= calls + 7);
        if stream {
            connection.read_until("\"content\":\"a\"");
        }
        drop(connection);
        // The call that runs, and one that may start before the server sees the connection closed.
        frees_the_engine(&rig, 2);
    }
    assert_eq!(post(rig.address, CHAT, &chat("x", json!({"max_tokens": 2}))).content(), "ab");
}

#[test]
fn a_client_that_leaves_in_the_prompt_frees_the_engine_within_a_chunk() {
    let rig = slow(Says::Alphabet, 8, Limits::default());
    for stream in [true, false] {
        let mut connection = Connection::open(rig.address);
        let long = chat(&"y".repeat(400), json!({"stream": stream}));
        let calls = rig.script.count();
        connection.send(request(CHAT, long.to_string()));
        rig.until(|rig| rig.script.count() >= calls + 2);
        drop(connection);
        frees_the_engine(&rig, 2);
        assert!(rig.script.count() < calls + 100, "of 105 chunks");
    }
}

#[test]
fn a_client_that_leaves_while_it_waits_is_forgotten() {
    let rig = slow(Says::Alphabet, 8, Limits::default());
    let mut running = Connection::open(rig.address);
    running.send(request(CHAT, endless(json!({"stream": true})).to_string()));
    rig.until(|rig| !rig.engine.is_idle());
    let mut waiting = Connection::open(rig.address);
    waiting.send(request(CHAT, endless(json!({})).to_string()));
    rig.until(|rig| rig.engine.waiting() == 1);
    drop(waiting);
    rig.until(|rig| rig.engine.waiting() == 0);
    assert!(!rig.engine.is_idle(), "the other one goes on");
}

#[test]
fn the_first_to_come_is_the_first_served() {
    let rig = slow(Says::Text("ok"), 8, Limits::default());
    let (sender, order) = mpsc::channel();
    scope(|scope| {
        for client in 0..5 {
            let (sender, rig) = (sender.clone(), &rig);
            scope.spawn(move || {
                assert_eq!(post(rig.address, CHAT, &chat("x", json!({}))).content(), "ok");
                sender.send(client).unwrap();
            });
            rig.until(|rig| if client == 0 { !rig.engine.is_idle() } else { rig.engine.waiting() == client });
        }
    });
    assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_full_queue_says_so() {
    let rig = slow(Says::Alphabet, 1, Limits::default());
    let mut connections: Vec<Connection> = Vec::new();
    for waiting in [0, 1] {
        let mut connection = Connection::open(rig.address);
        connection.send(request(CHAT, endless(json!({})).to_string()));
        rig.until(|rig| !rig.engine.is_idle() && rig.engine.waiting() == waiting);
        sleep(Duration::from_millis(2 * CALL));
        connections.push(connection);
    }
    let reply = post(rig.address, CHAT, &chat("x", json!({})));
    let error = reply.error();
    assert_eq!((reply.status, &error["code"]), (429, &json!("queue_full")));
    assert_eq!((&error["queued"], &error["limit"]), (&json!(1), &json!(1)));
    assert!(reply.header("retry-after").is_some());
    assert_eq!(get(rig.address, "/health").status, 200);
}

#[test]
fn waiting_ends_in_time() {
    let limits = Limits { queue_time: Duration::from_millis(200), ..Limits::default() };
    let rig = slow(Says::Alphabet, 8, limits);
    let mut running = Connection::open(rig.address);
    running.send(request(CHAT, endless(json!({"stream": true})).to_string()));
    running.read_until("\"content\":\"a\"");
    let reply = post(rig.address, CHAT, &chat("x", json!({"stream": true})));
    assert_eq!((reply.status, reply.code().as_str()), (503, "queue_timeout"));
    assert_eq!(rig.engine.waiting(), 0);
    assert!(!rig.engine.is_idle());
}

#[test]
fn health_answers_while_the_engine_works() {
    let rig = slow(Says::Alphabet, 8, Limits::default());
    let mut running = Connection::open(rig.address);
    running.send(request(CHAT, endless(json!({})).to_string()));
    rig.until(|rig| !rig.engine.is_idle());
    let start = std::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(get(rig.address, "/health").status, 200);
    }
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn one_conversation_leaves_nothing_for_the_next() {
    let rig = Rig::new(Script::new(Says::Alphabet));
    let probe = chat("x", json!({"max_tokens": 40}));
    let before = post(rig.address, CHAT, &probe).content();
    post(rig.address, CHAT, &chat("something else, and longer", json!({"max_tokens": 7})));
    assert_eq!(post(rig.address, CHAT, &probe).content(), before);
}
