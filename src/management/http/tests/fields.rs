use rstest::rstest;

use crate::management::http::{Failure, Fields};
use crate::wire::Value;

fn fields(body: &str) -> Result<Fields, Failure> {
    Fields::parse(body.as_bytes())
}

#[test]
fn fields_have_their_types_or_a_default() {
    let fields = fields(r#"{"t":true,"w":"false","n":"12","s":"text","o":{"x":1},"e":[]}"#);
    let fields = fields.unwrap();
    assert_eq!(fields.flag("t", false), Ok(true));
    assert_eq!(fields.flag("w", true), Ok(false));
    assert_eq!(fields.flag("absent", true), Ok(true));
    assert_eq!(fields.integer("n"), Ok(Some(12)));
    assert_eq!(fields.text("s"), Ok(Some("text")));
    assert_eq!(fields.arguments("e"), Ok(Vec::new()));
    let arguments = fields.arguments("o").unwrap();
    assert_eq!(arguments, [("x".into(), Value::Long(1))]);
}

#[rstest]
#[case("[]", "not_json")]
#[case("{", "not_json")]
#[case("\"{}\"", "encoded twice")]
#[case("5", "not_json")]
fn a_body_that_is_no_object_is_refused(#[case] body: &str, #[case] part: &str) {
    let refused = fields(body).unwrap_err();
    assert_eq!(refused.status, 400);
    assert!(refused.reason.contains(part), "{refused:?}");
}

#[test]
fn a_wrong_type_is_refused_by_the_name_of_its_field() {
    let fields = fields(r#"{"f":"yes","t":5,"n":"x","a":"x","deep":{"k":18446744073709551615}}"#);
    let fields = fields.unwrap();
    let names = |result: Result<(), Failure>, field: &str| {
        let refused = result.unwrap_err();
        assert_eq!(refused.status, 400);
        assert!(
            refused.reason.contains(&format!("'{field}'")),
            "{refused:?}"
        );
    };
    names(fields.flag("f", true).map(drop), "f");
    names(fields.text("t").map(drop), "t");
    names(fields.integer("n").map(drop), "n");
    names(fields.arguments("a").map(drop), "a");
    names(fields.arguments("deep").map(drop), "k");
    assert!(fields.require(&["f", "t"]).is_ok());
    let missing = fields.require(&["f", "x", "y"]).unwrap_err();
    assert_eq!(missing.reason, "[{key_missing,x},{key_missing,y}]");
}
