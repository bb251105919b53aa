//! The engine without a server.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use varve::engine::{Engine, Event, Failure, Finish, Generation, Options, Request, Status, SubmitError, Usage};

use super::script::{IM_END, IM_START, Says, Script, VOCAB, tokenizer};

fn start(script: &Script, options: Options) -> Engine {
    Engine::start(script.clone(), Arc::new(tokenizer()), options).unwrap()
}

fn request(prompt: &str, max_tokens: usize) -> Request {
    let prompt = prompt.bytes().map(u32::from).collect();
    Request { prompt, max_tokens, stop_ids: vec![IM_END], ..Request::default() }
}

/// Text, ids and end of a generation.
fn collect(mut generation: Generation) -> (String, Vec<u32>, Result<(Finish, Usage), Failure>) {
    let (mut all, mut tokens) = (String::new(), Vec::new());
    while let Some(event) = generation.next_blocking() {
        match event {
            Event::Piece { text, ids } => {
                all += &text;
                tokens.extend(ids);
            }
            Event::Finished { reason, usage, .. } => return (all, tokens, Ok((reason, usage))),
            Event::Failed(failure) => return (all, tokens, Err(failure)),
            Event::Started { .. } | Event::Prompt { .. } => {}
        }
    }
    panic!("no last event");
}

#[test]
fn events_come_in_their_order() {
    let engine = start(&Script::new(Says::Text("h\u{e9}!")), Options { chunk: 4, ..Options::default() });
    let mut generation = engine.submit(request("0123456\n", 10)).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = generation.next_blocking() {
        seen.push(match event {
            Event::Started { .. } => "started".to_owned(),
            Event::Prompt { done, total } => format!("{done}/{total}"),
            Event::Piece { text, ids } => format!("{text} {ids:?}"),
            Event::Finished { reason, usage, .. } => format!("{} {}", reason.as_str(), usage.generated),
            Event::Failed(failure) => failure.to_string(),
        });
    }
    assert_eq!(seen, ["started", "4/8", "8/8", "h [104]", "\u{e9} [195, 169]", "! [33]", "stop 5"]);
    assert!(generation.next_blocking().is_none());
}

#[test]
fn the_cut_of_a_prompt_changes_nothing() {
    let texts = [1, 3, 512].map(|chunk| {
        let engine = start(&Script::new(Says::Alphabet), Options { chunk, ..Options::default() });
        collect(engine.submit(request("abc\nxy", 5)).unwrap())
    });
    assert_eq!(texts[0].0, "cdefg");
    assert_eq!(texts[0].1, [99, 100, 101, 102, 103]);
    assert!(texts.iter().all(|t| (&t.0, &t.1) == (&texts[0].0, &texts[0].1)));
}

#[test]
fn ends_have_reasons() {
    let script = Script { context: 12, ..Script::new(Says::Text("abc")) };
    let engine = start(&script, Options::default());
    let end = |request| {
        let (text, ids, end) = collect(engine.submit(request).unwrap());
        let (reason, usage) = end.unwrap();
        (text, ids.len(), reason, usage.generated)
    };
    assert_eq!(end(request("x\n", 2)), ("ab".into(), 2, Finish::Length, 2));
    assert_eq!(end(request("x\n", 9)), ("abc".into(), 3, Finish::Stop, 4), "the stop token is counted, not shown");
    let eos_ignored = Request { ignore_eos: true, ..request("x\n", 99) };
    assert_eq!(end(eos_ignored), ("abc".into(), 10, Finish::Length, 10), "the context's end");
    let stopped = Request { stop: vec!["zz".into(), "bc".into()], ..request("x\n", 9) };
    assert_eq!(end(stopped), ("a".into(), 3, Finish::Stop, 3));
    // A stop text that only began does not hold back the text before the stop token.
    let begun = Request { stop: vec!["cd".into()], ..request("x\n", 9) };
    assert_eq!(end(begun), ("abc".into(), 3, Finish::Stop, 4));
}

#[test]
fn requests_are_checked_before_they_wait() {
    let engine = start(&Script { context: 8, ..Script::new(Says::Alphabet) }, Options::default());
    let refused = |request| engine.submit(request).err().unwrap();
    assert_eq!(refused(request("", 1)), SubmitError::EmptyPrompt);
    assert_eq!(refused(request("x", 0)), SubmitError::NoTokens);
    assert_eq!(refused(request("12345678", 1)), SubmitError::TooLong { prompt: 8, context: 8 });
    let foreign = Request { prompt: vec![1, VOCAB as u32], ..request("", 1) };
    assert_eq!(refused(foreign), SubmitError::Token { id: VOCAB as u32, vocab: VOCAB });
    let empty_stop = Request { stop: vec![String::new()], ..request("x", 1) };
    assert_eq!(refused(empty_stop), SubmitError::EmptyStop);
    let mut hot = request("x", 1);
    hot.sampling.temperature = f32::NAN;
    assert!(matches!(refused(hot), SubmitError::Sampling(_)));
    assert!(engine.submit(Request { prompt: vec![IM_START; 7], ..request("", 1) }).is_ok());
}

#[test]
fn the_queue_is_bounded_by_requests_and_by_tokens() {
    let script = Script { context: 100, ..Script::new(Says::Alphabet).slow(20) };
    let engine = start(&script, Options { queue: 3, chunk: 8 });
    let mut kept = vec![engine.submit(request("x", 99)).unwrap()];
    assert!(matches!(kept[0].next_blocking(), Some(Event::Started { .. })));
    kept.extend((0..3).map(|_| engine.submit(request("x", 99)).unwrap()));
    assert_eq!(engine.submit(request("x", 99)).err(), Some(SubmitError::QueueFull { queued: 3, limit: 3 }));
    kept.pop();
    assert!(engine.submit(request("x", 99)).is_ok(), "a dropped one gives its place back at once");

    let engine = start(&script, Options { queue: 99, chunk: 8 });
    let long = || request(&"x".repeat(98), 1);
    let mut kept = vec![engine.submit(long()).unwrap()];
    assert!(matches!(kept[0].next_blocking(), Some(Event::Started { .. })));
    kept.extend((0..4).map(|_| engine.submit(long()).unwrap()));
    assert_eq!(engine.submit(long()).err(), Some(SubmitError::TokensQueued { queued: 392, limit: 400 }));
    assert!(engine.submit(request("12345678", 1)).is_ok());
}

#[test]
fn a_dropped_generation_stops_within_a_token() {
    let script = Script::new(Says::Alphabet).slow(20);
    let engine = start(&script, Options { chunk: 2, ..Options::default() });
    for prompt in ["x", "a long prompt of many chunks, of which few are read"] {
        let mut generation = engine.submit(request(prompt, 500)).unwrap();
        while !matches!(generation.next_blocking(), Some(Event::Prompt { .. })) {}
        let calls = script.count();
        drop(generation);
        sleep(Duration::from_millis(200));
        assert!(engine.is_idle());
        assert!(script.count() <= calls + 1, "{prompt}: {} calls more", script.count() - calls);
    }
}

#[test]
fn failures_cost_their_request_only() {
    let engine = start(&Script::new(Says::Text("ok")), Options::default());
    let failure = |prompt| collect(engine.submit(request(prompt, 5)).unwrap()).2.unwrap_err();
    assert_eq!(failure("PANIC\n"), Failure::Panicked("the script panics".into()));
    assert!(matches!(failure("NAN\n"), Failure::Numeric(why) if why.contains("position 3")));
    assert_eq!(collect(engine.submit(request("x\n", 5)).unwrap()).0, "ok");
    assert_eq!(engine.status(), Status::Running);
}

#[test]
fn draining_finishes_and_aborting_does_not() {
    let script = Script::new(Says::Alphabet).slow(10);
    let engine = start(&script, Options::default());
    let running = engine.submit(request("x\n", 20)).unwrap();
    let waiting = engine.submit(request("x\n", 20)).unwrap();
    while engine.waiting() == 2 {
        sleep(Duration::from_millis(1));
    }
    engine.drain();
    assert_eq!(engine.status(), Status::Draining);
    assert_eq!(collect(waiting).2.unwrap_err(), Failure::Draining);
    assert_eq!(engine.submit(request("x\n", 20)).err(), Some(SubmitError::Draining));
    assert_eq!(collect(running).0.len(), 20);

    let engine = start(&script, Options::default());
    let mut running = engine.submit(request("x\n", 500)).unwrap();
    assert!(matches!(running.next_blocking(), Some(Event::Started { .. })));
    engine.abort();
    assert_eq!(collect(running).2.unwrap_err(), Failure::Draining);
}

#[test]
fn the_thread_ends_with_its_last_handle() {
    let script = Script::new(Says::Text("ok"));
    let engine = start(&script, Options::default());
    let calls = Arc::downgrade(&script.calls);
    drop(script);
    let other = engine.clone();
    drop(engine);
    let last = other.submit(request("x\n", 5)).unwrap();
    drop(other);
    assert_eq!(collect(last).0, "ok", "what was asked for is still done");
    while calls.strong_count() > 0 {
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn closing_waits_for_the_model_to_go() {
    let script = Script::new(Says::Alphabet).slow(20);
    let engine = start(&script, Options::default());
    let (other, running) = (engine.clone(), engine.submit(request("x\n", 500)).unwrap());
    let calls = Arc::downgrade(&script.calls);
    drop(script);
    engine.close();
    assert_eq!(calls.strong_count(), 0);
    assert_eq!(collect(running).2.unwrap_err(), Failure::Draining);
    assert_eq!(other.submit(request("x\n", 1)).err(), Some(SubmitError::Stopped));
}
