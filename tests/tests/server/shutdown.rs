//! The end: what runs is finished, what waits is told.

use std::thread::scope;
use std::time::Duration;

use serde_json::{Value, json};
use varve::engine::Options;
use varve::server::{Config, Ended, limits::Limits};

use super::client::{CHAT, Connection, get, post, request};
use super::rig::{Rig, chat};
use super::script::{Says, Script};

fn rig(drain: Duration) -> Rig {
    let limits = Limits { drain_time: drain, ..Limits::default() };
    let script = Script::new(Says::Alphabet).slow(20);
    Rig::with(script, Config { limits, ..Config::default() }, Options::default())
}

fn start(rig: &Rig, more: Value) -> Connection {
    let mut connection = Connection::open(rig.address);
    connection.send(request(CHAT, chat("x", more).to_string()));
    connection
}

#[test]
fn what_runs_is_finished_and_what_waits_is_told() {
    let mut rig = rig(Duration::from_secs(20));
    let running = start(&rig, json!({"max_tokens": 40, "stream": true}));
    rig.until(|rig| !rig.engine.is_idle() && rig.engine.waiting() == 0);
    let waiting = start(&rig, json!({"max_tokens": 40}));
    rig.until(|rig| rig.engine.waiting() == 1);
    rig.signal();
    let told = waiting.reply();
    assert_eq!((told.status, told.code().as_str()), (503, "draining"));
    for reply in [get(rig.address, "/health"), post(rig.address, CHAT, &chat("x", json!({})))] {
        assert_eq!((reply.status, reply.code().as_str()), (503, "draining"));
        assert!(reply.header("retry-after").is_some());
    }
    let finished = running.reply();
    assert!(finished.events().1, "{finished:?}");
    assert_eq!(finished.streamed().len(), 40);
    assert_eq!(rig.ended(), Ended::Drained);
    assert!(std::net::TcpStream::connect(rig.address).is_err(), "nobody listens any more");
}

#[test]
fn what_takes_too_long_is_cut_off_with_an_error() {
    let mut rig = rig(Duration::from_millis(200));
    let mut streamed = start(&rig, json!({"max_tokens": 1_000, "stream": true}));
    streamed.read_until("\"content\":\"a\"");
    rig.signal();
    streamed.read_until("\"code\":\"draining\"");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut streamed.0, &mut rest).unwrap();
    assert!(!rest.contains("[DONE]"), "{rest}");
    assert_eq!(rig.ended(), Ended::Aborted);
}

#[test]
fn a_whole_reply_that_takes_too_long_is_an_error() {
    let mut rig = rig(Duration::from_millis(200));
    let whole = start(&rig, json!({"max_tokens": 1_000}));
    rig.until(|rig| !rig.engine.is_idle() && rig.engine.waiting() == 0);
    rig.signal();
    let reply = whole.reply();
    assert_eq!((reply.status, reply.code().as_str()), (503, "draining"));
    assert_eq!(rig.ended(), Ended::Aborted);
}

#[test]
fn an_idle_server_ends_at_once() {
    let mut rig = rig(Duration::from_secs(20));
    // A connection that stays open and asks for nothing does not hold it.
    let idle = Connection::open(rig.address);
    scope(|scope| {
        let ended = scope.spawn(|| rig.ended());
        assert_eq!(idle.reply().status, 0);
        assert_eq!(ended.join().unwrap(), Ended::Drained);
    });
}
