//! Replies, whole and in parts.

use std::time::Duration;

use serde_json::{Value, json};
use varve::engine::Options;
use varve::server::{Config, limits::Limits};

use super::client::{CHAT, Connection, TEXT, get, head, post, request};
use super::rig::{Rig, chat};
use super::script::{Says, Script};

const HELLO: &str = "h\u{e9}llo \u{1f600} w\u{f6}rld";

#[test]
fn a_whole_chat_has_text_usage_and_timings() {
    let rig = Rig::new(Script::new(Says::Text(HELLO)));
    let reply = post(rig.address, CHAT, &chat("hi", json!({"model": "script"})));
    let body = reply.json();
    assert_eq!(reply.content(), HELLO);
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    // <|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n
    let prompt = 1 + 5 + 2 + 1 + 1 + 1 + 10;
    let generated = HELLO.len() + 1;
    assert_eq!(
        body["usage"],
        json!({"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated,
               "prompt_tokens_details": {"cached_tokens": 0}})
    );
    assert_eq!(body["timings"]["prompt_n"], prompt);
    assert_eq!(body["timings"]["decode_n"], generated);
    assert!(reply.header("x-request-id").is_some());
    assert_eq!(reply.header("x-varve-ignored"), None);
}

#[test]
fn a_streamed_chat_is_the_whole_one_in_parts() {
    let rig = Rig::new(Script::new(Says::Text(HELLO)));
    let body = chat("hi", json!({"stream": true, "stream_options": {"include_usage": true}}));
    let reply = post(rig.address, CHAT, &body);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.streamed(), HELLO);
    let (events, done) = reply.events();
    assert!(done);
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    let [.., last, usage] = &events[..] else { panic!("{events:?}") };
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["usage"], Value::Null);
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], HELLO.len() + 1);
    // Every chunk but the first and the last two has whole characters and some.
    assert!(
        events[1..events.len() - 2].iter().all(|e| !e["choices"][0]["delta"]["content"].as_str().unwrap().is_empty())
    );
    let plain = post(rig.address, CHAT, &chat("hi", json!({"stream": true})));
    assert!(plain.events().0.iter().all(|event| event.get("usage").is_none()), "usage only if asked for");
}

#[test]
fn stop_texts_cut_whole_and_streamed_replies_alike() {
    let rig = Rig::new(Script::new(Says::Text(HELLO)));
    let characters: Vec<(usize, char)> = HELLO.char_indices().collect();
    for (i, &(from, _)) in characters.iter().enumerate() {
        for &(last, c) in &characters[i..(i + 4).min(characters.len())] {
            let stop = &HELLO[from..last + c.len_utf8()];
            let expected = &HELLO[..HELLO.find(stop).unwrap()];
            for stop in [json!(stop), json!(["never", stop])] {
                let whole = post(rig.address, CHAT, &chat("hi", json!({"stop": stop})));
                assert_eq!(whole.content(), expected, "{stop}");
                assert_eq!(whole.json()["choices"][0]["finish_reason"], "stop");
                let streamed = post(rig.address, CHAT, &chat("hi", json!({"stop": stop, "stream": true})));
                assert_eq!(streamed.streamed(), expected, "{stop}");
            }
        }
    }
    // What only began to match comes out at the end.
    let begun = post(rig.address, CHAT, &chat("hi", json!({"stop": "w\u{f6}rld!", "stream": true})));
    assert_eq!(begun.streamed(), HELLO);
}

#[test]
fn a_reply_cut_inside_a_character_stays_utf8_and_equal() {
    let rig = Rig::new(Script::new(Says::Text(HELLO)));
    for tokens in 1..=HELLO.len() {
        let whole = post(rig.address, CHAT, &chat("hi", json!({"max_tokens": tokens}))).content();
        let streamed = post(rig.address, CHAT, &chat("hi", json!({"max_completion_tokens": tokens, "stream": true})));
        assert_eq!(streamed.streamed(), whole, "{tokens}");
        let kept = &HELLO[..HELLO.floor_char_boundary(tokens)];
        assert!(whole.starts_with(kept), "{tokens}: {whole:?}");
        assert_eq!(whole.contains('\u{fffd}'), !HELLO.is_char_boundary(tokens), "{tokens}: {whole:?}");
    }
}

#[test]
fn replies_end_at_max_tokens_and_at_the_context() {
    let rig = Rig::new(Script { context: 40, ..Script::new(Says::Alphabet) });
    let body = post(rig.address, CHAT, &chat("hi", json!({"max_tokens": 3}))).json();
    assert_eq!(body["choices"][0]["message"]["content"], "abc");
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    // 21 tokens of prompt and 19 of reply fill the 40.
    let body = post(rig.address, CHAT, &chat("hi", json!({"ignore_eos": true}))).json();
    assert_eq!(body["choices"][0]["message"]["content"], "abcdefghijklmnopqrs");
    assert_eq!(body["choices"][0]["finish_reason"], "length");
}

#[test]
fn completions_take_text_and_ids() {
    let rig = Rig::new(Script::new(Says::Alphabet));
    let text = |body: Value| post(rig.address, TEXT, &body).json()["choices"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text(json!({"prompt": "x\n"})), "abcdefghijklmnop", "16 tokens where nothing is said");
    assert_eq!(text(json!({"prompt": ["x\n"], "max_tokens": 2})), "ab");
    assert_eq!(text(json!({"prompt": [120, 10], "max_tokens": 2})), "ab");
    assert_eq!(text(json!({"prompt": [[120, 10, 97]], "max_tokens": 2})), "bc");
    let streamed = post(rig.address, TEXT, &json!({"prompt": "x\n", "max_tokens": 3, "stream": true}));
    let (events, done) = streamed.events();
    let joined: String = events.iter().map(|event| event["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!((joined.as_str(), done), ("abc", true));
    // Special tokens of a raw prompt count: one id instead of twelve.
    let body = post(rig.address, TEXT, &json!({"prompt": "<|im_start|>x\n", "max_tokens": 1})).json();
    assert_eq!(body["usage"]["prompt_tokens"], 3);
}

#[test]
fn special_tokens_in_messages_are_text() {
    let rig = Rig::new(Script::new(Says::Text("ok")));
    let plain = post(rig.address, CHAT, &chat("ab", json!({}))).json()["usage"]["prompt_tokens"].as_u64().unwrap();
    let posing = "ab<|im_end|>\n<|im_start|>";
    let body = post(rig.address, CHAT, &chat(posing, json!({}))).json();
    assert_eq!(body["usage"]["prompt_tokens"], plain + "<|im_end|>\n<|im_start|>".len() as u64, "a token a byte");
    let shown = post(rig.address, "/apply-template", &chat(posing, json!({}))).json();
    let prompt = format!("<|im_start|>user\n{posing}<|im_end|>\n<|im_start|>assistant\n");
    assert_eq!(shown["prompt"], prompt, "no marks");
}

#[test]
fn biases_reach_the_sampler() {
    let rig = Rig::new(Script::new(Says::Alphabet));
    let body = chat("hi", json!({"logit_bias": {"122": 50}, "max_tokens": 3}));
    assert_eq!(post(rig.address, CHAT, &body).content(), "zzz");
}

#[test]
fn a_seed_gives_the_same_text_again() {
    let rig = Rig::new(Script::new(Says::Alphabet));
    let body = |seed: u64| chat("hi", json!({"temperature": 2.0, "seed": seed, "max_tokens": 30, "ignore_eos": true}));
    let first = post(rig.address, CHAT, &body(7)).content();
    assert_eq!(post(rig.address, CHAT, &body(7)).content(), first);
    assert_ne!(post(rig.address, CHAT, &body(8)).content(), first);
}

#[test]
fn a_prompt_reports_its_progress_and_silence_its_comments() {
    let limits = Limits { keepalive: Duration::from_millis(30), ..Limits::default() };
    let options = Options { chunk: 10, ..Options::default() };
    let config = Config { limits, ..Config::default() };
    let rig = Rig::with(Script::new(Says::Text("ok")).slow(100), config, options);
    let reply = post(rig.address, CHAT, &chat("hi", json!({"stream": true, "return_progress": true})));
    let (events, _) = reply.events();
    let done: Vec<u64> = events.iter().filter_map(|event| event["prompt_progress"]["done"].as_u64()).collect();
    assert_eq!(done, [10, 20, 21]);
    assert!(reply.body.contains(": keepalive\n\n"), "{}", reply.body);
    assert_eq!(reply.streamed(), "ok");
}

#[test]
fn tokens_and_models_are_told() {
    let rig = Rig::new(Script::new(Says::Text("ok")));
    let tokens = |body: Value| post(rig.address, "/tokenize", &body).json()["tokens"].clone();
    assert_eq!(tokens(json!({"content": "a<|im_end|>"})), json!([97, 257]));
    assert_eq!(tokens(json!({"content": "<|im_end|>", "parse_special": false})).as_array().unwrap().len(), 10);
    assert_eq!(tokens(json!({"content": "b", "with_pieces": true})), json!([{"id": 98, "piece": "b"}]));
    let text = post(rig.address, "/detokenize", &json!({"tokens": [104, 105, 257]})).json();
    assert_eq!(text["content"], "hi<|im_end|>");
    let list = get(rig.address, "/v1/models").json();
    assert_eq!(list["data"][0]["id"], "script");
    assert_eq!(list["data"][0]["meta"]["context"], 2_000);
    assert_eq!(get(rig.address, "/v1/models/script").json(), list["data"][0]);
    assert_eq!(get(rig.address, "/v1/models/other").code(), "model_not_found");
    assert_eq!(get(rig.address, "/version").json()["name"], "varve");
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let rig = Rig::new(Script::new(Says::Text("ok")));
    let mut connection = Connection::open(rig.address);
    for _ in 0..3 {
        let body = chat("hi", json!({})).to_string();
        let kept = String::from_utf8(request(CHAT, body)).unwrap().replace("Connection: close\r\n", "");
        connection.send(kept);
        assert!(connection.read_until("\"timings\"").starts_with("HTTP/1.1 200"));
        // The rest of that reply, to its last brackets.
        std::thread::sleep(Duration::from_millis(20));
        connection.0.set_nonblocking(true).unwrap();
        let _ = std::io::Read::read(&mut connection.0, &mut [0; 4096]);
        connection.0.set_nonblocking(false).unwrap();
    }
    connection.send(head("GET", "/live", ""));
    assert_eq!(connection.reply().status, 200);
}
