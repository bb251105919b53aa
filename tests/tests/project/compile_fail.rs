//! What must not compile, with the message that the author of the mistake reads.

#[test]
fn wrong_kernels_and_wrong_launches_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/project/compile_fail/*.rs");
}
