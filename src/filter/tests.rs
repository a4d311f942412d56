//! Claims about selectors. [JMS 2.0 3.8.1]

use bytes::Bytes;
use rstest::rstest;

use super::{Selector, SelectorError};
use crate::base::Timestamp;
use crate::base::limits::BATCH_NS_MAX;
use crate::message::{KeyRule, Message};
use crate::wire::{HeaderFields, Value, encode_value, write_header};

/// When filters are asked.
pub(super) const NOW: Timestamp = Timestamp(1_500);

/// A durable message of priority 7 with all properties and some application properties.
pub(super) fn message() -> Message {
    let mut payload = Vec::new();
    let header = HeaderFields {
        durable: Some(true),
        priority: Some(7),
        ..HeaderFields::default()
    };
    write_header(&mut payload, &header);
    let string = |text: &str| Value::string(text);
    let properties = vec![
        string("ID:7"),
        Value::Binary(Bytes::from_static(b"ada")),
        string("/queues/orders"),
        string("invoice"),
        string("/queues/answers"),
        Value::Ulong(42),
        Value::symbol("text/plain"),
        Value::symbol("gzip"),
        Value::Timestamp(2_000),
        Value::Timestamp(1_000),
        string("group"),
        Value::Uint(3),
        string("answers"),
    ];
    let application = [
        ("colour", string("red")),
        ("weight", Value::Int(2500)),
        ("price", Value::Double(9.5f64.to_bits())),
        ("small", Value::Float(0.25f32.to_bits())),
        ("huge", Value::Ulong(u64::MAX)),
        ("fresh", Value::Bool(true)),
        ("blob", Value::Binary(Bytes::from_static(b"x"))),
        ("quote", string("it's")),
        ("percent", string("100%")),
        ("order", string("word")),
    ];
    let application = application.map(|(key, value)| (string(key), value));
    for (code, value) in [
        (0x73, Value::List(properties)),
        (0x74, Value::Map(application.to_vec())),
        (0x77, string("body")),
    ] {
        let section = Value::Described(Box::new((Value::Ulong(code), value)));
        encode_value(&section, &mut payload);
    }
    Message::from_transfer(Bytes::from(payload), KeyRule::Specification).unwrap()
}

#[rstest]
#[case::equal_texts("colour = 'red'", true)]
#[case::unequal_texts("colour <> 'red'", false)]
#[case::texts_have_no_order("colour > 'blue'", false)]
#[case::a_doubled_quote_is_one("quote = 'it''s'", true)]
#[case::exact_numbers("weight >= 2500 AND weight < 2501", true)]
#[case::hexadecimal("weight = 0x9C4", true)]
#[case::octal("weight = 04704", true)]
#[case::long_suffix("weight = 2500L", true)]
#[case::approximate_numbers("price = 95e-1 AND price > 9. AND small = .25f", true)]
#[case::exact_beside_approximate("price < 10", true)]
#[case::unsigned_beyond_long("huge > 9223372036854775807", true)]
#[case::booleans("fresh = TRUE AND fresh <> false", true)]
#[case::a_boolean_stands_alone("fresh", true)]
#[case::unlike_types_are_unequal_and_not_unequal("colour = 1 OR colour <> 1", false)]
#[case::sums_and_products("weight = 2 * (1000 + 500) - 1000 / 2", true)]
#[case::products_before_sums("1 + 2 * 3 = 7", true)]
#[case::signs("-weight = - 2500 AND +weight = 2500 AND - -weight = 2500", true)]
#[case::division_by_zero_is_unknown("1 / 0 = 1 OR NOT (1 / 0 = 1)", false)]
#[case::and_before_or("fresh OR fresh AND FALSE", true)]
#[case::not_before_and("NOT FALSE AND TRUE", true)]
#[case::words_in_any_case("Not false And tRUE oR FALSE", true)]
#[case::between("weight BETWEEN 2500 AND 2600 AND weight NOT BETWEEN 1 AND 2499", true)]
#[case::between_unknown("missing BETWEEN 1 AND 2 OR missing NOT BETWEEN 1 AND 2", false)]
#[case::in_list("colour IN ('blue', 'red')", true)]
#[case::not_in_list("colour NOT IN ('blue')", true)]
#[case::missing_in_list("missing IN ('a') OR missing NOT IN ('a')", false)]
#[case::a_number_is_in_no_list("weight IN ('2500')", false)]
#[case::like_any("colour LIKE 'r%' AND colour LIKE '%e%' AND colour LIKE '%'", true)]
#[case::like_one("colour LIKE 'r_d' AND colour NOT LIKE 'r_'", true)]
#[case::like_goes_back("quote LIKE '%t%s'", true)]
#[case::like_escape(
    "percent LIKE '100\\%' ESCAPE '\\' AND colour NOT LIKE 'r\\%' ESCAPE '\\'",
    true
)]
#[case::is_null("missing IS NULL AND colour IS NOT NULL", true)]
#[case::other_types_are_null("blob IS NULL", true)]
#[case::unknown_is_not_true("missing = 'x'", false)]
#[case::unknown_negated_is_unknown("NOT (missing = 'x')", false)]
#[case::unknown_or_true("missing = 'x' OR TRUE", true)]
#[case::names_may_begin_with_reserved_words("order = 'word'", true)]
#[case::delivery_mode("JMSDeliveryMode = 'PERSISTENT' AND amqp.durable", true)]
#[case::priority("JMSPriority = 7", true)]
#[case::ids(
    "JMSMessageID = 'ID:7' AND JMSCorrelationID = 'ID:AMQP_ULONG:42'",
    true
)]
#[case::times("JMSTimestamp = 1000 AND JMSExpiration = 2000", true)]
#[case::kind("JMSType = 'invoice' AND amqp.to LIKE '%/orders'", true)]
#[case::groups(
    "JMSXGroupID = 'group' AND JMSXGroupSeq = 3 AND JMSXUserID = 'ada'",
    true
)]
#[case::content("amqp.content_type = 'text/plain'", true)]
#[case::deliveries_count_this_one("JMSXDeliveryCount = 3", true)]
fn a_selector_matches_what_it_says(#[case] text: &str, #[case] expected: bool) {
    let selector = Selector::parse(text).unwrap();
    assert_eq!(selector.matches(NOW, &message(), 2), expected, "{text}");
}

#[rstest]
#[case("", "expected a value at character 1, found the end")]
#[case("colour =", "expected a value at character 9, found the end")]
#[case("(a = 1", "expected ')' at character 7, found the end")]
#[case("a = 1 b", "expected an operator or the end at character 7, found 'b'")]
#[case("a = 'x", "the string that begins at character 5 has no end")]
#[case("a = 12x", "'12x' at character 5 is not a number")]
#[case("a = 09", "'09' at character 5 is not a number")]
#[case("a ; b", "unexpected character ';' at character 3")]
#[case("a IS 1", "expected NULL at character 6, found the number 1")]
#[case("a IN (1)", "expected a string at character 7, found the number 1")]
#[case("a NOT = 1", "expected BETWEEN, IN or LIKE at character 7, found '='")]
#[case("a BETWEEN 1 OR 2", "expected AND at character 13, found 'OR'")]
#[case(
    "a LIKE 'x' ESCAPE 'yy'",
    "expected a string of one character at character 19, found the string 'yy'"
)]
#[case(
    "a LIKE 'xa' ESCAPE 'x'",
    "the LIKE pattern 'xa' escapes nothing, or an ordinary character"
)]
fn a_bad_selector_is_refused_with_its_place(#[case] text: &str, #[case] expected: &str) {
    let error = Selector::parse(text).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn nesting_and_length_are_bounded() {
    let nested = |depth: usize| format!("{}TRUE{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Selector::parse(&nested(32)).is_ok());
    let too_deep = Selector::parse(&nested(33)).unwrap_err();
    assert!(matches!(too_deep, SelectorError::TooDeep { max: 32, .. }));
    let long = format!("a = '{}'", "x".repeat(16 * 1024));
    let too_long = Selector::parse(&long).unwrap_err();
    assert!(matches!(too_long, SelectorError::TooLong { .. }));
    // Signs and NOT may repeat without end: they nest nothing.
    let negated = format!("{} {} 1 = 1", "NOT ".repeat(2_000), "-".repeat(2_000));
    assert!(
        Selector::parse(&negated)
            .unwrap()
            .matches(NOW, &message(), 0)
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-zA-Z0-9 '().,<>=+*/_%eE-]{0,80}") {
        if let Ok(selector) = Selector::parse(&text) {
            selector.matches(NOW, &message(), 0);
        }
    }
}

/// A message with these application properties.
pub(super) fn with_properties(properties: &[(String, Value)]) -> Message {
    let pairs = properties.iter();
    let pairs = pairs.map(|(name, value)| (Value::String(name.clone()), value.clone()));
    let mut payload = Vec::new();
    for (code, value) in [
        (0x74, Value::Map(pairs.collect())),
        (0x77, Value::string("body")),
    ] {
        let section = Value::Described(Box::new((Value::Ulong(code), value)));
        encode_value(&section, &mut payload);
    }
    Message::from_transfer(Bytes::from(payload), KeyRule::Specification).unwrap()
}

/// `many` numbered properties and then `last`.
pub(super) fn numbered(many: usize) -> Vec<(String, Value)> {
    let mut properties: Vec<(String, Value)> = (0..many)
        .map(|n| (format!("p{n}"), Value::Uint(u32::try_from(n).unwrap())))
        .collect();
    properties.push(("last".to_owned(), Value::Bool(true)));
    properties
}

fn asks(selector: &str, message: &Message) -> super::Answer {
    Selector::parse(selector).unwrap().asks(NOW, message, 0)
}

/// A selector walked the properties anew for each of its terms: 100 terms on one message with 14 MB of
/// properties held up everybody for 17 seconds.
#[test]
fn properties_are_walked_once_for_all_terms_and_no_further_than_allowed() {
    let message = with_properties(&numbered(100_000));
    let terms: Vec<String> = (90_000..90_500).map(|n| format!("p{n} = {n}")).collect();
    let answer = asks(&terms.join(" AND "), &message);
    assert!(!answer.matches && answer.spent_ns < 60_000, "{answer:?}");
    let few = asks("p7 = 7", &message);
    assert!(
        few.matches && few.spent_ns < 2_000,
        "stops when it has all: {few:?}"
    );
    let terms: Vec<String> = (0..200).map(|n| format!("p{n} = {n}")).collect();
    let all = asks(&terms.join(" AND "), &message);
    assert!(all.matches, "{all:?}");
    assert!(all.spent_ns < 20_000, "one walk: {all:?}");
}

#[test]
fn what_stands_behind_all_that_is_looked_at_makes_no_match() {
    let fits = with_properties(&numbered(1_023));
    assert!(asks("last", &fits).matches);
    let hidden = with_properties(&numbered(1_024));
    for selector in [
        "last",
        "NOT last",
        "last IS NULL",
        "last IS NOT NULL",
        "other IS NULL",
    ] {
        assert!(!asks(selector, &hidden).matches, "{selector}");
    }
    assert!(asks("p5 = 5", &hidden).matches, "found before the bound");
    assert!(
        asks("JMSPriority = 4", &hidden).matches,
        "asks for no property"
    );
    let large = ("large".to_owned(), Value::string("x".repeat(100_000)));
    let behind = ("last".to_owned(), Value::Bool(true));
    let message = with_properties(&[large, behind]);
    assert!(
        asks("last", &message).matches,
        "large values are passed over"
    );
    assert!(
        !asks("large IS NOT NULL", &message).matches,
        "but not looked at"
    );
}

/// Patterns with many `%` take the product of both lengths on texts that nearly match.
#[test]
fn a_pattern_ends_with_its_time_and_does_not_match() {
    let text = ("t".to_owned(), Value::string("a".repeat(60_000)));
    let message = with_properties(&[text]);
    let pattern = format!("t LIKE '%{}b'", "a%".repeat(100));
    let answer = asks(&pattern, &message);
    assert!(!answer.matches);
    assert!(answer.spent_ns < BATCH_NS_MAX + 100, "{answer:?}");
    let slow = format!("t LIKE '%{}b%'", "a".repeat(250));
    let answer = asks(&format!("NOT ({slow})"), &message);
    assert!(
        !answer.matches,
        "what cannot be told in time is not true: {answer:?}"
    );
    assert!(asks("t LIKE 'aaaa%'", &message).matches);
    assert!(!asks("t LIKE '%needle%'", &message).matches);
    assert!(
        asks("NOT t LIKE '%needle%'", &message).matches,
        "there is time for this"
    );
}

#[test]
fn selectors_and_patterns_are_bounded() {
    let parse = |text: String| Selector::parse(&text).map(drop);
    let values = |count: usize| vec!["1=1"; count / 2].join(" OR ");
    assert_eq!(parse(values(1_024)), Ok(()));
    let error = parse(values(1_026)).unwrap_err().to_string();
    assert!(
        error.contains("more than 1024 names and constants"),
        "{error}"
    );
    let members = vec!["'m'"; 1_024].join(",");
    let error = parse(format!("c IN ({members})")).unwrap_err().to_string();
    assert!(error.contains("more than 1024"), "{error}");
    assert_eq!(parse(format!("c LIKE '{}'", "_".repeat(256))), Ok(()));
    let error = parse(format!("c LIKE '{}'", "_".repeat(257))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a LIKE pattern has 257 characters, at most 256 are allowed"
    );
}
