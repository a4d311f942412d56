//! Claims about SQL filters. [AMQP Filter Expressions 6]

use bytes::Bytes;
use rstest::rstest;

use super::tests::{NOW, message, numbered, with_properties};
use super::{Answer, Selector, SelectorError};
use crate::base::limits::BATCH_NS_MAX;
use crate::message::Message;
use crate::wire::Value;

fn sql(text: &str) -> Selector {
    Selector::parse_sql(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn asks(text: &str, message: &Message) -> Answer {
    sql(text).asks(NOW, message, 0)
}

// The message has priority 7, and it is 1,500 ms after 1970.
#[rstest]
#[case::priority("header.priority = 7 AND h.priority > 4", true)]
#[case::durable("h.durable", true)]
#[case::fields("properties.subject = 'invoice' AND p.to LIKE '/queues/%'", true)]
#[case::an_id_that_is_a_text("p.message_id = 'ID:7'", true)]
#[case::an_id_that_is_a_number("p.correlation_id = 42 AND p.correlation_id <> '42'", true)]
#[case::a_user_as_text("p.user_id = 'ada' AND p.user_id LIKE 'a_a'", true)]
#[case::a_user_as_bytes("p.user_id = 0x616461 AND p.user_id <> 0x6164", true)]
#[case::symbols_are_texts(
    "p.content_type = 'text/plain' AND p.content_encoding IN ('gzip', 'zstd')",
    true
)]
#[case::a_field_that_is_there("p.group_id IS NOT NULL AND p.reply_to_group_id = 'answers'", true)]
#[case::a_remainder("p.group_sequence % 2 = 1 AND p.group_sequence % 3 = 0", true)]
#[case::times("p.creation_time < UTC() AND p.absolute_expiry_time > UTC()", true)]
#[case::a_time_ago("p.creation_time > UTC() - 400", false)]
#[case::three_ways_to_name_a_property(
    "colour = 'red' AND a.colour = 'red' AND application_properties.colour = 'red' \
     AND application-properties.[colour] = 'red'",
    true
)]
#[case::names_of_selectors_are_properties("JMSPriority IS NULL AND [amqp.priority] IS NULL", true)]
#[case::between_is_no_word("between IS NULL", true)]
#[case::a_reserved_word_in_brackets("[order] = 'word' AND [and] IS NULL", true)]
#[case::double_quotes("colour = \"red\" AND quote = \"it's\" AND quote = 'it''s'", true)]
#[case::no_octal_numbers("010 = 10", true)]
#[case::fractions(
    "price = 9.5 AND price = 0.95E1 AND price < 9.6E+0 AND small = 2.5E-1",
    true
)]
#[case::a_division_gives_a_fraction("5 / 2 = 2.5 AND weight / 1000 > 2", true)]
#[case::precedence("2 + 3 * 4 - 6 / 3 = 12 AND NOT 1 = 2 OR 1 = 2", true)]
#[case::signs("-weight = -2500 AND +weight = - -2500", true)]
#[case::numbers_that_become_too_large("9223372036854775807 * 2 > 9223372036854775807", true)]
#[case::texts_have_an_order("colour > 'blue' AND colour <= 'red' AND colour < 'rede'", true)]
#[case::unlike_types_are_unequal("colour <> 1 AND NOT colour = 1", true)]
#[case::unlike_types_have_no_order("colour > 1 OR colour <= 1", false)]
#[case::booleans("fresh AND fresh = TRUE AND fresh != FALSE", true)]
#[case::booleans_have_no_order("fresh > FALSE", false)]
#[case::a_number_is_not_true("weight", false)]
#[case::nor_false("NOT weight", false)]
#[case::bytes("blob = 0x78 AND blob = 'x' AND blob <> 0x7878 AND blob < 0x79", true)]
#[case::bytes_are_there("blob IS NOT NULL AND EXISTS(blob) AND NOT EXISTS(a.blob2)", true)]
#[case::fields_exist("EXISTS(p.subject) AND EXISTS(h.priority)", true)]
#[case::in_values(
    "weight IN (1, 2 * 1250, 'x') AND colour NOT IN ('blue', weight)",
    true
)]
#[case::a_missing_member_is_unequal("colour NOT IN ('blue', missing)", true)]
#[case::in_of_a_missing_value("missing IN ('a') OR missing NOT IN ('a')", false)]
#[case::like(
    "percent LIKE '100\\%' ESCAPE '\\' AND colour LIKE '_e%' AND colour NOT LIKE 'e%'",
    true
)]
#[case::any_character_may_be_escaped("colour LIKE '!re%' ESCAPE '!'", true)]
#[case::like_of_a_number_is_unknown("weight LIKE '2%' OR weight NOT LIKE '2%'", false)]
#[case::comparing_what_is_missing("missing = 1 OR missing <> 1 OR NOT missing = 1", false)]
#[case::unknown_and_false_is_false("NOT (missing = 1 AND 1 = 2)", true)]
#[case::unknown_or_true_is_true("missing = 1 OR 1 = 1", true)]
#[case::division_by_zero("1 / 0 = 1 OR 1 / 0 <> 1 OR 5 % 0 = 0 OR 1.0 / 0.0 > 0", false)]
#[case::a_remainder_of_fractions("NOT 3 % 1.2 = 0.5", false)]
#[case::calculating_with_texts("colour + 1 = 1 OR colour + 'x' <> 'y'", false)]
fn an_sql_filter_matches_what_it_says(#[case] text: &str, #[case] expected: bool) {
    assert_eq!(sql(text).matches(NOW, &message(), 0), expected, "{text}");
}

#[rstest]
#[case("", "expected a value at character 1, found the end")]
#[case("a = ", "expected a value at character 5, found the end")]
#[case("a = 'x", "the string that begins at character 5 has no end")]
#[case("a = \"x'", "the string that begins at character 5 has no end")]
#[case(
    "b = [a",
    "the name that begins at character 5 has no ], or one [ that is not doubled"
)]
#[case(
    "a BETWEEN 1 AND 2",
    "expected an operator or the end at character 3, found 'BETWEEN'"
)]
#[case("a NOT 1", "expected IN or LIKE at character 7, found the number 1")]
#[case("a IN ()", "expected a value at character 7, found ')'")]
#[case("a IN (1 2)", "expected ',' or ')' at character 9, found the number 2")]
#[case("a IS 0x00", "expected NULL at character 6, found 1 bytes")]
#[case("UTC > 1", "expected '(' at character 5, found '>'")]
#[case(
    "EXISTS(1)",
    "expected a field or a property at character 8, found the number 1"
)]
#[case("EXISTS(p.to", "expected ')' at character 12, found the end")]
#[case(
    "h.priority p.to",
    "expected an operator or the end at character 12, found a field of a section"
)]
#[case("a = 0x123", "'0x123' at character 5 is not a number")]
#[case("a = 0x", "'0x' at character 5 is not a number")]
#[case("a = 5L", "'5L' at character 5 is not a number")]
#[case("a = 1.", "'1.' at character 5 is not a number")]
#[case("a = 1.E3", "'1.E3' at character 5 is not a number")]
#[case(
    "a = 9223372036854775808",
    "'9223372036854775808' at character 5 is not a number"
)]
#[case("a ; b", "unexpected character ';' at character 3")]
#[case("x1.y = 1", "unexpected character '.' at character 3")]
#[case("LOWER(a) = 'x'", "the function LOWER at character 1 is not offered")]
#[case(
    "a LIKE 'xa' ESCAPE 'yy'",
    "expected a string of one character at character 20, found the string 'yy'"
)]
#[case(
    "a LIKE 'xy' ESCAPE 'y'",
    "the LIKE pattern 'xy' escapes nothing, or an ordinary character"
)]
#[case(
    "a = 1 and b = 2",
    "'and' at character 7 is a reserved word: operators are written in upper case, a property of that name as [and]"
)]
#[case(
    "date = 1",
    "'date' at character 1 is a reserved word: operators are written in upper case, a property of that name as [date]"
)]
#[case(
    "footer.x = 1",
    "'footer' at character 1 is none of the sections header (h), properties (p) and application_properties (a)"
)]
#[case(
    "1 = p.colour",
    "the section 'p' at character 5 has no field 'colour' for filters"
)]
#[case(
    "header.ttl = 1",
    "the section 'header' at character 1 has no field 'ttl' for filters"
)]
fn a_bad_sql_filter_is_refused_with_its_place(#[case] text: &str, #[case] expected: &str) {
    let error = Selector::parse_sql(text).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn selectors_know_nothing_of_sql_filters() {
    for text in ["a % 2 = 0", "a = \"x\"", "[a] = 1", "a IN (1)", "UTC() > 1"] {
        assert!(Selector::parse(text).is_err(), "{text}");
    }
    let selector = Selector::parse("p.subject = 'invoice'").unwrap();
    assert!(
        !selector.matches(NOW, &message(), 0),
        "a property of that name"
    );
    let selector = Selector::parse("blob IS NULL").unwrap();
    assert!(
        selector.matches(NOW, &message(), 0),
        "bytes are unknown to them"
    );
}

#[test]
fn a_name_in_brackets_may_have_any_characters() {
    let properties = [
        ("order status", 1),
        ("[x]", 2),
        ("\u{6ce8}\u{6587}", 3),
        ("", 4),
    ];
    let properties = properties.map(|(name, n)| (name.to_owned(), Value::Int(n)));
    let message = with_properties(&properties);
    let text = "[order status] = 1 AND [[[x]]] = 2 AND a.[\u{6ce8}\u{6587}] = 3 AND [] = 4";
    assert!(sql(text).matches(NOW, &message, 0));
}

#[test]
fn values_of_every_simple_type_are_there() {
    let uuid = *b"0123456789abcdef";
    let properties = [
        ("uuid", Value::Uuid(uuid)),
        ("char", Value::Char(120)),
        ("time", Value::Timestamp(-5)),
        ("null", Value::Null),
        ("symbol", Value::symbol("red")),
        ("bytes", Value::Binary(Bytes::from_static(b"\xff\x00"))),
        ("nan", Value::Double(f64::NAN.to_bits())),
    ];
    let properties = properties.map(|(name, value)| (name.to_owned(), value));
    let message = with_properties(&properties);
    for (text, expect) in [
        ("uuid = 0x30313233343536373839616263646566", true),
        ("uuid = '0123456789abcdef' AND uuid > 0x3031", true),
        ("char IS NOT NULL AND EXISTS(char) AND char <> 'x'", true),
        ("char = 'x' OR char + 1 > 0 OR char LIKE 'x'", false),
        ("time = -5 AND time < UTC()", true),
        ("[null] IS NULL AND NOT EXISTS([null])", true),
        ("symbol = 'red' AND symbol LIKE 'r%'", true),
        ("bytes = 0xFF00 AND bytes = 0xff00 AND bytes > 'a'", true),
        ("bytes LIKE '%' OR bytes NOT LIKE '%'", false),
        ("nan <> nan AND NOT nan = nan AND NOT nan > 0", true),
    ] {
        assert_eq!(sql(text).matches(NOW, &message, 0), expect, "{text}");
    }
}

#[test]
fn filters_of_both_languages_have_to_be_true() {
    let both = |selector: &str, text: &str| {
        let selector = Selector::parse(selector).unwrap();
        selector.and(sql(text)).matches(NOW, &message(), 0)
    };
    assert!(both("colour = 'red'", "weight % 2 = 0"));
    assert!(!both("colour = 'blue'", "weight % 2 = 0"));
    assert!(!both("colour = 'red'", "weight % 2 = 1"));
}

#[test]
fn sql_filters_have_the_bounds_of_selectors() {
    let nested = |depth: usize| format!("{}TRUE{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Selector::parse_sql(&nested(32)).is_ok());
    let error = Selector::parse_sql(&nested(33)).unwrap_err();
    assert!(matches!(error, SelectorError::TooDeep { max: 32, .. }));
    let long = format!("a = 0x{}", "00".repeat(8 * 1024));
    let error = Selector::parse_sql(&long).unwrap_err();
    assert!(matches!(error, SelectorError::TooLong { max: 16_384, .. }));
    for (part, count) in [
        ("0xFF", 1_024),
        ("UTC()", 1_024),
        ("a", 1_024),
        ("EXISTS(a)", 1_024),
    ] {
        let members = vec![part; count].join(",");
        let error = Selector::parse_sql(&format!("b IN ({members})")).unwrap_err();
        assert!(
            matches!(error, SelectorError::TooManyValues { max: 1_024, .. }),
            "{part}"
        );
        let members = vec![part; count / 2 - 1].join(",");
        assert!(
            Selector::parse_sql(&format!("b IN ({members})")).is_ok(),
            "{part}"
        );
    }
    let pattern = format!("a LIKE '{}'", "_".repeat(257));
    let error = Selector::parse_sql(&pattern).unwrap_err();
    assert!(matches!(error, SelectorError::PatternTooLong { .. }));
}

#[test]
fn evaluating_an_sql_filter_has_a_bound() {
    let message = with_properties(&numbered(100_000));
    let terms: Vec<String> = (90_000..90_500).map(|n| format!("p{n} = {n}")).collect();
    let answer = asks(&terms.join(" AND "), &message);
    assert!(!answer.matches && answer.spent_ns < 60_000, "{answer:?}");
    let text = ("t".to_owned(), Value::string("a".repeat(60_000)));
    let message = with_properties(&[text]);
    let pattern = format!("NOT t LIKE '%{}b%'", "a".repeat(250));
    let answer = asks(&pattern, &message);
    assert!(
        !answer.matches && answer.spent_ns < BATCH_NS_MAX + 100,
        "{answer:?}"
    );
    let members = vec!["t"; 1_000].join(",");
    let answer = asks(&format!("NOT 'b' IN ({members})"), &message);
    assert!(!answer.matches, "it is not known in time: {answer:?}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-zA-Z0-9 '\"().,<>=+*/_%eE\\[\\]x!-]{0,80}") {
        if let Ok(filter) = Selector::parse_sql(&text) {
            filter.matches(NOW, &message(), 0);
        }
    }
}
