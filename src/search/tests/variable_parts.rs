//! Claims about what varies in texts.

use proptest::prelude::*;
use rstest::rstest;

use crate::base::limits::GROUP_TEXT_CHARS_MAX;
use crate::search::variable_parts::without_variable_parts as stripped;

#[rstest]
#[case::url(
    "upstream https://api.example.com:8443/pay?id=7&x='a' failed.",
    "upstream <url>'a' failed."
)]
#[case::url_ends_before_punctuation(
    "see http://a.b/c). Then (amqp://u:p@h/%2F)",
    "see <url>). Then (<url>)"
)]
#[case::url_behind_a_digit("1http://x/y", "<n><url>")]
#[case::no_url("http:// and ://x", "http:// and ://x")]
#[case::email("mail to j.doe+x@mail.example.org.", "mail to <email>.")]
#[case::no_email("user@host and @name", "user@host and @name")]
#[case::uuid("id {550E8400-e29b-41d4-a716-446655440000}", "id {<uuid>}")]
#[case::iso(
    "at 2026-01-05T12:34:56.789Z, 2026-01-05 12:34:56,123 +01:00",
    "at <time>, <time>"
)]
#[case::compact("run 20260105T123456Z", "run <time>")]
#[case::dates("1/5/26 05.01.2026 2026/1/5", "<time> <time> <time>")]
#[case::us("on 1/5/2026 1:02:03 PM", "on <time>")]
#[case::rfc("since Fri, 05 Jan 2026 12:34:56 GMT", "since <time>")]
#[case::java("at Fri Jan 05 12:34:56 UTC 2026!", "at <time>!")]
#[case::words("January 5, 2026 and 5 Mar 2026", "<time> and <time>")]
#[case::time("in 00:00:30.0000001 or 12:34", "in <time> or <time>")]
#[case::not_a_month("maybe 5 marbles", "maybe <n> marbles")]
#[case::ipv4("10.0.3.7:51234, 10.0.0.0/8, 10.0.3.7.", "<ip>, <ip>, <ip>.")]
#[case::ipv6("fe80::1 [2001:db8::8a2e]:5672 ::1.", "<ip> [<ip>]:<n> <ip>.")]
#[case::ipv6_whole("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "<ip>")]
#[case::not_ipv6("std::vec Abc::Dead", "std::vec Abc::Dead")]
#[case::hardware("00:1b:44:11:3a:b7", "<n>")]
#[case::hex("9c2e41aa 0xff DEADBEEF01", "<n> <n> <n>")]
#[case::not_hex("deadbeef faced 1234567g", "deadbeef faced <n>g")]
#[case::quoted("field 'a b' and \"c \\\" d\" and `e`", "field <q> and <q> and <q>")]
#[case::quoted_by_people("\u{201c}a\u{201d} \u{201e}b\u{201c} \u{ab}c\u{bb}", "<q> <q> <q>")]
#[case::apostrophes("can't find John's 'x'", "can't find John's <q>")]
#[case::open_quote("it said 'no", "it said 'no")]
#[case::numbers(
    "-5 of 1,234.56 (+7) 30000ms 50% x=-1",
    "<n> of <n> (<n>) <n>ms <n>% x=<n>"
)]
#[case::names("Int32 utf8 p99 SHA256 ORD4711", "Int32 utf8 p99 SHA<n> ORD<n>")]
#[case::xml("<id>4711</id>", "<id><n></id>")]
#[case::digits_of_other_scripts("\u{661}\u{662}\u{663}", "<n>")]
#[case::blanks(" a \t\u{a0} b\n", "a b")]
#[case::direction("a\u{202e}b\u{200f}c\u{7}", "abc")]
fn what_varies_is_replaced(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(stripped(text), expected);
}

#[test]
fn a_text_is_cut_at_512_characters_after_what_varies_is_gone() {
    let id = "550e8400-e29b-41d4-a716-446655440000 ";
    let [short, long] = [id, "ab "].map(|part| stripped(&part.repeat(400)));
    assert!(short.starts_with("<uuid> <uuid>"));
    assert!(long.chars().count() <= GROUP_TEXT_CHARS_MAX);
    // What stands behind an id is found wherever the id was cut off before.
    let text = |digits: &str| format!("{}order {digits} is missing", "x ".repeat(200));
    assert_eq!(stripped(&text("1")), stripped(&text("123456789")));
}

/// Pieces of which hostile and ordinary texts are made.
const PIECES: &str = "[a-f0-9]{1,9}|[0-9]{1,4}|http://|://|@|\\.|:|::|-|'|\"|`|<|>|<n>|<q>|Jan |Mon, \
                      |T|Z| |ORD|0x|\u{661}|\u{e9}|\\\\|,|/|\\+|%";

proptest! {
    #[test]
    fn removing_twice_equals_removing_once(pieces in prop::collection::vec(PIECES, 0..60)) {
        let once = stripped(&pieces.concat());
        prop_assert_eq!(stripped(&once), once);
    }

    #[test]
    fn any_text_is_stripped(text in "\\PC{0,200}") {
        let once = stripped(&text);
        prop_assert!(once.chars().all(|c| !c.is_control()));
        prop_assert_eq!(stripped(&once), once);
    }
}
