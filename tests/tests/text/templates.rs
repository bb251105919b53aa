//! Templates made of pieces at random: an answer or an error with a line, never a panic.

use proptest::prelude::*;
use serde_json::json;
use varve::model::template::ChatTemplate;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_template_gives_text_or_an_error_with_a_line(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "{% for m in messages %}", "{% endfor %}", "{% if x %}", "{% endif %}", "{% else %}", "{{ m.content }}",
            "{{ messages[0].role.split(' ', 1)[-1] }}", "{{ x|tojson(indent=2) }}", "{% set x = m %}", "{{ 'a'.rsplit('') }}",
            "{% macro f(a) %}", "{% endmacro %}", "{{ f(f) }}", "{{ x.get('y').z }}", "{% break %}", "text\n", "{{", "}}",
            "{{ messages[::-1]|join(x) }}", "{{ ''.join(messages) }}", "{{ range(-9, x, -1) }}", "{%- raw -%}", "{#",
            "{{ strftime_now('%-') }}", "{{ 'é'.find('é') ~ 'é'.rfind('') }}", "{{ raise_exception(x) }}",
        ]), 0..10),
    ) {
        let context = json!({ "messages": [{ "role": "a b", "content": "c" }, { "role": null }], "x": { "y": [1.5, "é"] } });
        if let Err(error) = ChatTemplate::new(&pieces.concat()).and_then(|template| template.render(&context)) {
            prop_assert!(error.line().is_some_and(|line| line > 0), "{error:?}");
        }
    }
}
