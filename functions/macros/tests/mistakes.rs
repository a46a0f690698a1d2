//! Mistakes in declarations are told when Saline is built.

#[test]
fn a_mistake_in_a_declaration_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
