//! Paths, methods, types, keys, hosts and ids.

use serde_json::json;
use varve::engine::Options;
use varve::server::Config;
use varve::server::auth::{Keys, Names};

use super::client::{CHAT, Reply, exchange, get, head, post};
use super::rig::{Rig, chat};
use super::script::{Says, Script};

fn with(config: Config) -> Rig {
    Rig::with(Script::new(Says::Text("ok")), config, Options::default())
}

#[test]
fn unknown_paths_and_wrong_methods() {
    let rig = with(Config::default());
    for path in ["/", "/v1", "/v1/embeddings", "/metrics", "/slots", "/v1/chat/completions/x"] {
        let reply = get(rig.address, path);
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{path}");
    }
    for (method, path, allow) in [
        ("GET", CHAT, "POST"),
        ("DELETE", "/v1/completions", "POST"),
        ("PUT", "/tokenize", "POST"),
        ("POST", "/v1/models", "GET,HEAD"),
        ("POST", "/health", "GET,HEAD"),
    ] {
        let reply = exchange(rig.address, head(method, path, "Content-Length: 0\r\n"));
        assert_eq!((reply.status, reply.code().as_str()), (405, "method_not_allowed"), "{method} {path}");
        assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
    }
}

#[test]
fn only_json_is_taken() {
    let rig = with(Config::default());
    let send = |media: &str| {
        let body = chat("x", json!({})).to_string();
        let more = format!("{media}Content-Length: {}\r\n", body.len());
        exchange(rig.address, head("POST", CHAT, &more) + &body)
    };
    for media in ["", "Content-Type: text/plain\r\n", "Content-Type: application/jsonx\r\n", "Content-Type: \u{e9}\r\n"]
    {
        let reply = send(media);
        assert_eq!((reply.status, reply.code().as_str()), (415, "unsupported_media_type"), "{media}");
    }
    for media in ["Content-Type: application/json; charset=utf-8\r\n", "Content-Type: Application/JSON\r\n"] {
        assert_eq!(send(media).status, 200, "{media}");
    }
}

#[test]
fn keys_guard_everything_but_health() {
    let rig = with(Config { keys: Keys::from_lines("alpha\nbeta\n"), ..Config::default() });
    let ask = |path: &str, key: &str| -> Reply { exchange(rig.address, head("GET", path, key)) };
    for path in ["/health", "/live"] {
        assert_eq!(ask(path, "").status, 200, "{path}");
    }
    for path in ["/v1/models", "/version", CHAT, "/nowhere"] {
        for key in ["", "Authorization: Bearer gamma\r\n", "Authorization: alpha\r\n"] {
            let reply = ask(path, key);
            assert_eq!((reply.status, reply.code().as_str()), (401, "invalid_api_key"), "{path} {key}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(ask("/v1/models", "Authorization: Bearer beta\r\n").status, 200);
}

#[test]
fn foreign_names_and_pages_are_refused() {
    let names = Names { hosts: vec!["gpu.lan".into()], origins: vec!["http://app.lan".into()] };
    let rig = with(Config { names, ..Config::default() });
    let ask = |method: &str, host: &str, more: &str| {
        exchange(rig.address, format!("{method} /live HTTP/1.1\r\n{host}Connection: close\r\n{more}\r\n"))
    };
    for host in ["Host: localhost\r\n", "Host: 127.0.0.1:9\r\n", "Host: [::1]\r\n", "Host: gpu.lan:80\r\n"] {
        assert_eq!(ask("GET", host, "").status, 200, "{host}");
    }
    for host in ["Host: evil.example\r\n", "Host: 192.0.2.1\r\n", ""] {
        let reply = ask("GET", host, "");
        assert_eq!((reply.status, reply.code().as_str()), (403, "host_not_allowed"), "{host}");
    }
    let reply = ask("GET", "Host: localhost\r\n", "Origin: http://evil.example\r\n");
    assert_eq!((reply.status, reply.code().as_str()), (403, "origin_not_allowed"));
    let reply = ask("GET", "Host: localhost\r\n", "Origin: http://app.lan\r\n");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some("http://app.lan")));
    let reply = ask("OPTIONS", "Host: localhost\r\n", "Origin: http://app.lan\r\n");
    assert_eq!((reply.status, reply.header("access-control-allow-methods")), (204, Some("GET, POST")));
}

#[test]
fn requests_have_ids() {
    let rig = with(Config::default());
    let id = |sent: &str| {
        let reply = exchange(rig.address, head("GET", "/live", sent));
        reply.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(id("x-request-id: a.B-9_z\r\n"), "a.B-9_z");
    assert_eq!(id(&format!("x-request-id: {}\r\n", "a".repeat(128))).len(), 128);
    for bad in ["x-request-id: a b\r\n".to_owned(), format!("x-request-id: {}\r\n", "a".repeat(129)), String::new()] {
        assert_eq!(id(&bad).len(), 16, "{bad}");
    }
    assert_ne!(id(""), id(""));
}

#[test]
fn nothing_runs_before_the_model_is_there() {
    let rig = Rig::loading(Script::new(Says::Text("ok")), Config::default(), Options::default());
    assert_eq!(get(rig.address, "/live").status, 200);
    for reply in
        [get(rig.address, "/health"), get(rig.address, "/v1/models"), post(rig.address, CHAT, &chat("x", json!({})))]
    {
        assert_eq!((reply.status, reply.code().as_str()), (503, "loading"));
        assert!(reply.header("retry-after").is_some());
    }
    rig.load();
    assert_eq!(get(rig.address, "/health").json(), json!({"status": "ok"}));
    assert_eq!(post(rig.address, CHAT, &chat("x", json!({}))).content(), "ok");
}

#[test]
fn a_panic_and_broken_numbers_cost_one_request() {
    let rig = with(Config::default());
    for (text, code) in [("PANIC", "internal"), ("NAN", "numeric_error")] {
        let reply = exchange(rig.address, {
            let body = chat(text, json!({})).to_string();
            let more =
                format!("x-request-id: mine\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
            head("POST", CHAT, &more) + &body
        });
        let error = reply.error();
        assert_eq!((reply.status, &error["code"], &error["request_id"]), (500, &json!(code), &json!("mine")));
        assert!(!error["message"].as_str().unwrap().contains("script panics"), "{error}");
        let streamed = post(rig.address, CHAT, &chat(text, json!({"stream": true})));
        let (events, done) = streamed.events();
        assert_eq!((streamed.status, done, &events.last().unwrap()["error"]["code"]), (200, false, &json!(code)));
        assert_eq!(post(rig.address, CHAT, &chat("x", json!({}))).content(), "ok");
    }
}
