//! Bodies that are wrong: each gets its 400 with the parameter's name, none a 500, and the server goes on.

use serde_json::{Value, json};
use varve::engine::Options;
use varve::server::Config;

use super::client::{CHAT, TEXT, exchange, post, request};
use super::rig::{Rig, chat};
use super::script::{Says, Script, VOCAB};

fn rig() -> Rig {
    Rig::new(Script::new(Says::Text("ok")))
}

#[track_caller]
fn refused(rig: &Rig, path: &str, body: impl AsRef<[u8]>, code: &str, param: Value) {
    let reply = exchange(rig.address, request(path, body.as_ref()));
    let shown = String::from_utf8_lossy(&body.as_ref()[..body.as_ref().len().min(200)]).into_owned();
    assert_eq!(reply.status, 400, "{shown}: {reply:?}");
    let error = reply.error();
    assert_eq!((&error["code"], &error["param"]), (&json!(code), &param), "{shown}: {error}");
    assert!(error["message"].as_str().unwrap().len() < 600, "{error}");
}

#[test]
fn bodies_that_are_not_json() {
    let rig = rig();
    let utf16: Vec<u8> = chat("x", json!({})).to_string().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let refused = |body: &[u8], param| refused(&rig, CHAT, body, "malformed_json", param);
    refused(b"", Value::Null);
    refused(b"{\"messages\":[{\"role\":\"user\",\"content\":\"a\xff\"}]}", json!("messages[0].content"));
    refused(b"{\"messages\":[{\"role\":\"user\",\"content\":\"\xc3", json!("messages[0].content"));
    refused(&utf16, Value::Null);
    refused(b"{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud83d\"}]}", json!("messages[0].content"));
    refused(b"{\"temperature\":NaN}", json!("temperature"));
    refused(b"{\"temperature\":1e999}", json!("temperature"));
    refused(b"{\"a\":1,}", Value::Null);
    refused(b"{\"a\":1} x", Value::Null);
    refused(b"[1,2", json!("[1]"));
    refused(b"{\"a\0\":1", Value::Null);
}

#[test]
fn values_out_of_range_or_of_the_wrong_type() {
    let rig = rig();
    let cases = [
        ("max_tokens", json!([0, -1, 1.5, "5", true, [], {}, 99_999_999_999_999_i64])),
        ("max_completion_tokens", json!([0, -1])),
        ("temperature", json!([-1, 2.1, "1", [], {}])),
        ("top_p", json!([0, 1.1, -1])),
        ("top_k", json!([-1, VOCAB + 1, 0.5])),
        ("min_p", json!([-0.1, 1.1])),
        ("repetition_penalty", json!([0, 2.1, -1])),
        ("presence_penalty", json!([-2.1, 2.1])),
        ("frequency_penalty", json!([-2.1, 2.1])),
        ("seed", json!([1.5, "7", 1e30])),
        ("stream", json!([1, "true"])),
        ("ignore_eos", json!([0])),
        ("stop", json!([1, {}, vec!["x"; 17], vec!["x"; 500_000]])),
        ("logit_bias", json!([[], 5])),
        ("user", json!([7])),
        ("metadata", json!([7])),
        ("stream_options", json!([{}])),
        ("model", json!([7])),
        ("chat_template_kwargs", json!([7])),
    ];
    for (field, values) in cases {
        for value in values.as_array().unwrap() {
            let mut body = chat("x", json!({}));
            body[field] = value.clone();
            refused(&rig, CHAT, body.to_string(), "invalid_value", json!(field));
        }
    }
    for (more, param) in [
        (json!({"stop": [""]}), "stop[0]"),
        (json!({"stop": ["a", "x".repeat(257)]}), "stop[1]"),
        (json!({"stop": ["a", 7]}), "stop[1]"),
        (json!({"logit_bias": {"99999999": 5}}), "logit_bias"),
        (json!({"logit_bias": {"cat": 5}}), "logit_bias"),
        (json!({"logit_bias": {"-1": 5}}), "logit_bias"),
        (json!({"logit_bias": {"5": 101}}), "logit_bias.5"),
        (json!({"max_tokens": 5, "max_completion_tokens": 6}), "max_tokens"),
        (json!({"stream": true, "stream_options": {"include_usage": 1}}), "stream_options.include_usage"),
    ] {
        refused(&rig, CHAT, chat("x", more).to_string(), "invalid_value", json!(param));
    }
}

#[test]
fn messages_are_named_by_their_place() {
    let rig = rig();
    let user = json!({"role": "user", "content": "x"});
    for (messages, param) in [
        (json!(null), "messages"),
        (json!([]), "messages"),
        (json!("x"), "messages"),
        (json!([7]), "messages[0]"),
        (json!([user, {"role": "king", "content": "x"}]), "messages[1].role"),
        (json!([user, user, {"content": "x"}]), "messages[2].role"),
        (json!([user, {"role": 7, "content": "x"}]), "messages[1].role"),
        (json!([{"role": "user"}]), "messages[0].content"),
        (json!([{"role": "user", "content": 7}]), "messages[0].content"),
        (json!([{"role": "user", "content": [{"type": "text"}]}]), "messages[0].content[0].text"),
        (json!([{"role": "user", "content": ["x"]}]), "messages[0].content[0]"),
        (json!([{"role": "user", "content": "x", "name": 7}]), "messages[0].name"),
        (json!(vec![user.clone(); 4_097]), "messages"),
    ] {
        refused(&rig, CHAT, json!({ "messages": messages }).to_string(), "invalid_value", json!(param));
    }
    refused(&rig, CHAT, "[]", "invalid_value", Value::Null);
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let joined = json!({"messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": parts}]});
    let shown = post(rig.address, "/apply-template", &joined).json()["prompt"].as_str().unwrap().to_owned();
    assert!(shown.starts_with("<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nab<|im_end|>"), "{shown}");
}

#[test]
fn what_is_known_and_not_done_yet_is_refused_by_name() {
    let rig = rig();
    for (field, value) in [
        ("n", json!(2)),
        ("logprobs", json!(true)),
        ("top_logprobs", json!(3)),
        ("tools", json!([{"type": "function", "function": {"name": "f"}}])),
        ("tool_choice", json!("required")),
        ("response_format", json!({"type": "json_object"})),
        ("reasoning_effort", json!("low")),
        ("id_slot", json!(7)),
        ("audio", json!({})),
    ] {
        let mut body = chat("x", json!({}));
        body[field] = value;
        refused(&rig, CHAT, body.to_string(), "unsupported_value", json!(field));
    }
    for (message, param) in [
        (json!({"role": "tool", "content": "x"}), "messages[0].role"),
        (json!({"role": "user", "content": [{"type": "image_url"}]}), "messages[0].content[0].type"),
        (json!({"role": "assistant", "content": "x", "tool_calls": [{}]}), "messages[0].tool_calls"),
    ] {
        refused(&rig, CHAT, json!({"messages": [message]}).to_string(), "unsupported_value", json!(param));
    }
    refused(&rig, TEXT, json!({"prompt": "x", "echo": true}).to_string(), "unsupported_value", json!("echo"));
    // Values that ask for nothing are fine, as clients send them unasked.
    let idle = json!({"n": 1, "logprobs": false, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"},
                      "user": "u", "metadata": {"a": "b"}, "stop": null, "max_tokens": null, "cache_prompt": true});
    assert_eq!(post(rig.address, CHAT, &chat("x", idle)).content(), "ok");
}

#[test]
fn prompts_of_completions_and_tokens() {
    let rig = rig();
    for (prompt, param) in [
        (json!(null), "prompt"),
        (json!(7), "prompt"),
        (json!(""), "prompt"),
        (json!([]), "prompt"),
        (json!(["a", "b"]), "prompt"),
        (json!([1, VOCAB]), "prompt[1]"),
        (json!([1, -1]), "prompt[1]"),
        (json!([1, "x"]), "prompt[1]"),
        (json!([{}]), "prompt"),
    ] {
        refused(&rig, TEXT, json!({ "prompt": prompt }).to_string(), "invalid_value", json!(param));
    }
    refused(&rig, TEXT, b"{\"prompt\":\"\\udcf0\"}", "malformed_json", json!("prompt"));
    refused(&rig, "/tokenize", b"{}", "invalid_value", json!("content"));
    refused(&rig, "/tokenize", b"{\"content\":7}", "invalid_value", json!("content"));
    refused(&rig, "/detokenize", b"{\"tokens\":[1,9999]}", "invalid_value", json!("tokens[1]"));
    refused(&rig, "/detokenize", b"{}", "invalid_value", json!("tokens"));
}

#[test]
fn deep_nesting_costs_no_stack() {
    let rig = rig();
    let deep = |depth: usize| {
        let body = chat("x", json!({"metadata": "HERE"})).to_string();
        body.replace("\"HERE\"", &format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth)))
    };
    assert_eq!(exchange(rig.address, request(CHAT, deep(62))).status, 200);
    for depth in [63, 10_000, 100_000, 1_000_000] {
        refused(&rig, CHAT, deep(depth), "invalid_value", Value::Null);
    }
}

#[test]
fn the_context_is_counted_before_the_queue() {
    let script = Script { context: 30, ..Script::new(Says::Alphabet) };
    let rig = Rig::new(script.clone());
    // 19 tokens of template and one of text: 10 are left.
    assert_eq!(post(rig.address, CHAT, &chat("x", json!({"max_tokens": 10}))).status, 200);
    for (text, max_tokens, prompt) in
        [("x", json!(11), 20), ("0123456789a", json!(null), 30), ("x", json!(1_000_000_000), 20)]
    {
        let reply = post(rig.address, CHAT, &chat(text, json!({ "max_tokens": max_tokens })));
        let error = reply.error();
        assert_eq!((reply.status, &error["code"]), (400, &json!("context_length_exceeded")));
        assert_eq!((&error["n_prompt_tokens"], &error["n_ctx"]), (&json!(prompt), &json!(30)));
        assert_eq!(error["max_tokens"], if max_tokens.is_null() { json!(1) } else { max_tokens });
    }
    let config = Config { fit_max_tokens: true, ..Config::default() };
    let fitting = Rig::with(script, config, Options::default());
    let body = post(fitting.address, CHAT, &chat("x", json!({"max_tokens": 1_000_000_000}))).json();
    assert_eq!(body["usage"]["completion_tokens"], 10);
}

#[test]
fn a_template_that_refuses_says_so() {
    let rig = rig();
    let reply = post(rig.address, CHAT, &json!({"messages": [{"role": "assistant", "content": "x"}]}));
    let error = reply.error();
    assert_eq!((reply.status, &error["code"], &error["line"]), (400, &json!("template_error"), &json!(1)));
    assert!(error["message"].as_str().unwrap().contains("the last message must be of a user"), "{error}");
}

#[test]
fn unknown_fields_are_named_and_do_nothing() {
    let rig = rig();
    let reply = post(rig.address, CHAT, &chat("x", json!({"n_discard": -32, "weird\r\n,": 1, "nothing": null})));
    assert_eq!(reply.content(), "ok");
    assert_eq!(reply.header("x-varve-ignored"), Some("n_discard, weird???"));
    let many: serde_json::Map<_, _> = (0..500).map(|i| (format!("f{i}"), json!(1))).collect();
    let reply = post(rig.address, CHAT, &chat("x", Value::Object(many)));
    assert!(reply.header("x-varve-ignored").unwrap().ends_with("f31, .."));
}

#[test]
fn another_model_is_not_found() {
    let config = Config { aliases: vec!["any".into()], ..Config::default() };
    let rig = Rig::with(Script::new(Says::Text("ok")), config, Options::default());
    for model in ["script", "any"] {
        assert_eq!(post(rig.address, CHAT, &chat("x", json!({ "model": model }))).status, 200);
    }
    let reply = post(rig.address, CHAT, &chat("x", json!({"model": "gpt"})));
    assert_eq!((reply.status, reply.code().as_str()), (404, "model_not_found"));
    assert_eq!(reply.error()["available"], json!(["script", "any"]));
}
