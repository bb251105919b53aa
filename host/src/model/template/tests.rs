//! Templates of the tiny models and one in the manner of Qwen3, Python's habits, and bounds.

#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn render(source: &str, context: Value) -> String {
    ChatTemplate::new(source).unwrap().render(&context).unwrap()
}

fn fault(source: &str, context: Value) -> TemplateError {
    ChatTemplate::new(source).and_then(|t| t.render(&context)).unwrap_err()
}

#[test]
fn the_tiny_models_template_renders() {
    let source = include_str!("../../../../tests/golden/oracle/qwen4_exp_tiny/chat_template.jinja");
    let messages =
        json!([{ "role": "system", "content": "Be <b>brief</b> & 'kind'." }, { "role": "user", "content": "hi" }]);
    let wanted = "<|im_start|>system\nBe <b>brief</b> & 'kind'.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n";
    assert_eq!(render(source, json!({ "messages": messages })), wanted);
    let prompt = render(source, json!({ "messages": messages, "add_generation_prompt": true }));
    assert_eq!(prompt, format!("{wanted}<|im_start|>assistant\n"));
}

/// In the manner of Qwen3: tools, thinking, a namespace, a reversed loop, tool replies gathered in one turn.
const QWEN: &str = include_str!("../../../../tests/golden/templates/tools_thinking.jinja");

#[test]
fn a_template_with_tools_and_thinking_renders() {
    let context = json!({
        "tools": [{ "type": "function", "function": { "name": "f<x>", "parameters": { "a": [1, 2.5, true, null] } } }],
        "messages": [
            { "role": "system", "content": "S" },
            { "role": "user", "content": "first" },
            { "role": "assistant", "content": "<think>\nold\n</think>\n\nanswer" },
            { "role": "user", "content": "second" },
            { "role": "assistant", "content": "", "reasoning_content": "why\n", "tool_calls": [
                { "function": { "name": "f<x>", "arguments": { "city": "Köln", "n": { "k": 1 } } } }] },
            { "role": "tool", "content": "A" },
            { "role": "tool", "content": "B" }
        ],
        "add_generation_prompt": true,
        "enable_thinking": false
    });
    let wanted = r#"<|im_start|>system
S

# Tools

<tools>
{"type": "function", "function": {"name": "f<x>", "parameters": {"a": [1, 2.5, true, null]}}}
</tools><|im_end|>
<|im_start|>user
first<|im_end|>
<|im_start|>assistant
answer<|im_end|>
<|im_start|>user
second<|im_end|>
<|im_start|>assistant
<think>
why
</think>


<tool_call>
<function=f<x>>
<parameter=city>Köln</parameter>
<parameter=n>{"k": 1}</parameter>
</function>
</tool_call><|im_end|>
<|im_start|>user
<tool_response>
A
</tool_response>
<tool_response>
B
</tool_response><|im_end|>
<|im_start|>assistant
<think>

</think>

"#;
    assert_eq!(render(QWEN, context), wanted);
}

#[test]
fn the_templates_own_refusal_is_told_with_its_line() {
    let error =
        fault(QWEN, json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "robot", "content": "" }] }));
    let line = QWEN.lines().position(|l| l.contains("raise_exception")).unwrap() + 1;
    assert!(matches!(&error, TemplateError::Raised { message, .. } if message == "Unexpected role robot"), "{error:?}");
    assert_eq!(error.line(), Some(line));
    // From inside a macro too.
    let error = fault("{% macro f() %}\n{{ raise_exception('no') }}{% endmacro %}\n\n{{ f() }}", json!({}));
    assert!(matches!(&error, TemplateError::Raised { line: 2, message } if message == "no"), "{error:?}");
}

#[test]
fn faults_have_lines() {
    assert!(matches!(fault("a\n{% if %}", json!({})), TemplateError::Syntax { line: 2, .. }));
    assert!(matches!(fault("a\n\n{{ x.y.z }}", json!({})), TemplateError::Render { line: 3, .. }));
    assert!(matches!(fault("{{ 'a'.frob() }}", json!({})), TemplateError::Render { line: 1, .. }));
    assert!(matches!(
        fault("\n{{ 'a'|frob }}", json!({})),
        TemplateError::Syntax { line: 2, .. } | TemplateError::Render { line: 2, .. }
    ));
    assert!(matches!(fault(&" ".repeat(MAX_SOURCE + 1), json!({})), TemplateError::Source { .. }));
    assert!(ChatTemplate::new(&"(".repeat(100_000)).is_ok(), "text is no template");
    assert!(ChatTemplate::new(&format!("{{{{ {} }}}}", "(".repeat(100_000))).is_err());
}

#[test]
fn endless_templates_stop_within_a_second() {
    let loops = |n: usize, length: usize| {
        let heads: String = (0..n).map(|i| format!("\n{{% for x{i} in range({length}) %}}")).collect();
        format!("{heads}{}", "{% endfor %}".repeat(n))
    };
    let recursion = "\n{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}".to_owned();
    let capture = "\n{% set x %}{% for i in range(99999) %}{{ big }}{% endfor %}{% endset %}".to_owned();
    let long = "\n{% for i in range(999999999) %}{% endfor %}".to_owned();
    for source in [loops(2, 99_999), loops(4, 9_999), recursion, capture, long, "\n{{ 'a' * 9999999999 }}".to_owned()] {
        let start = Instant::now();
        let error = fault(&source, json!({ "big": "x".repeat(100_000) }));
        assert!(start.elapsed() < Duration::from_secs(1), "{source}: {:?}", start.elapsed());
        assert!(error.line().is_some_and(|line| line > 1), "{source}: {error:?}");
    }
    assert!(matches!(fault(&loops(2, 99_999), json!({})), TemplateError::Steps { line: 2 | 3, .. }));
    assert!(matches!(fault(&loops(4, 9_999), json!({})), TemplateError::Steps { .. }));
}

#[test]
fn long_conversations_have_enough_steps() {
    let turn = |i: usize| json!({ "role": if i.is_multiple_of(2) { "user" } else { "assistant" }, "content": "word" });
    let messages: Vec<Value> = (0..4096).map(turn).collect();
    let prompt = render(QWEN, json!({ "messages": messages }));
    assert_eq!(prompt.matches("<|im_start|>").count(), 4096);
}

#[test]
fn json_is_written_as_python_does() {
    let x = json!({ "b": [1, "é<&'\"\n"], "a": {}, "e": [], "f": 1e-7, "g": 1e20, "h": 0.1 });
    let of = |filter: &str| render(&format!("{{{{ x|{filter} }}}}"), json!({ "x": x }));
    let f = r#""f": 1e-07, "g": 1e+20, "h": 0.1"#;
    assert_eq!(of("tojson"), format!(r#"{{"b": [1, "é<&'\"\n"], "a": {{}}, "e": [], {f}}}"#));
    assert_eq!(of("tojson(sort_keys=true)"), format!(r#"{{"a": {{}}, "b": [1, "é<&'\"\n"], "e": [], {f}}}"#));
    assert!(of("tojson(ensure_ascii=true)").contains(r#""\u00e9<&'\"\n""#));
    assert!(of("tojson(separators=(',', ':'))").starts_with(r#"{"b":[1,"é"#));
    let indented = "{\n  \"b\": [\n    1,\n    \"é<&'\\\"\\n\"\n  ],\n  \"a\": {},\n  \"e\": [],\n  \"f\": 1e-07,\n  \"g\": 1e+20,\n  \"h\": 0.1\n}";
    assert_eq!(of("tojson(indent=2)"), indented);
    assert!(matches!(fault("{{ 1|tojson(indent=99999999) }}", json!({})), TemplateError::Render { .. }));
}

#[test]
fn python_methods_are_there() {
    let cases = [
        (
            "' a b '.strip() ~ '|' ~ 'xaxx'.strip('x') ~ '|' ~ 'xax'.lstrip('x') ~ '|' ~ 'xax'.rstrip('x')",
            "a b|a|ax|xa",
        ),
        ("' a  b '.split()|join('|') ~ '/' ~ 'a,b,c'.split(',', 1)|join('|')", "a|b/a|b,c"),
        ("'a,b,c'.rsplit(',', 1)|join('|') ~ '/' ~ 'a\nb'.splitlines()|join('|')", "a,b|c/a|b"),
        ("'abc'.startswith('ab') and 'abc'.endswith(('x', 'c')) and not 'abc'.startswith('b')", "True"),
        ("'abcabc'.replace('b', 'X', 1) ~ 'abc'.replace('b', '')", "aXcabcac"),
        ("'äbc'.find('b') ~ ' ' ~ 'abcb'.rfind('b') ~ ' ' ~ 'a'.find('z') ~ ' ' ~ 'aXbXc'.count('X')", "1 3 -1 2"),
        (
            "', '.join(['a', 'b']) ~ 'ab'.upper() ~ 'AB'.lower() ~ 'aB c'.capitalize() ~ 'ab cd'.title()",
            "a, bABabAb cAb Cd",
        ),
        ("'abc'.removeprefix('a') ~ 'abc'.removesuffix('c') ~ '12'.isdigit() ~ ''.isdigit()", "bcabTrueFalse"),
        ("m.get('k') ~ m.get('z', 'd') ~ m.keys()|join ~ m.values()|join", "1dk1"),
        ("[1, 2, 1].count(1) ~ [5, 6].index(6)", "21"),
        ("m.get('z')", "None"),
        ("false", "False"),
    ];
    for (expression, wanted) in cases {
        assert_eq!(render(&format!("{{{{ {expression} }}}}"), json!({ "m": { "k": 1 } })), wanted, "{expression}");
    }
}

#[test]
fn blocks_are_trimmed_and_loops_controlled() {
    let source = "  {% for i in range(9) %}\n    {% if i == 1 %}{% continue %}{% endif %}\n{% if i == 3 %}{% break %}{% endif %}{{ i }}\n  {% endfor %}\n";
    assert_eq!(render(source, json!({})), "0\n2\n");
    assert_eq!(render("{{ strftime_now('%Y') }}", json!({})).len(), 4);
    assert!(matches!(fault("{{ strftime_now('%Q') }}", json!({})), TemplateError::Render { line: 1, .. }));
}
