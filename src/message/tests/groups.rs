//! The group of a message: properties group-id and group-sequence.

use rstest::rstest;

use super::message;

const BODY: &str = "005375a003616263";
/// The ten fields of the properties in front of group-id, all null.
const FRONT: &str = "40404040404040404040";

#[rstest]
#[case::no_properties("", None, false)]
#[case::empty_properties("00537345", None, false)]
#[case::fields_in_front_only(&format!("005373c00b0a{FRONT}"), None, false)]
#[case::null(&format!("005373c00c0b{FRONT}40"), None, false)]
#[case::empty(&format!("005373c00d0b{FRONT}a100"), None, false)]
#[case::symbol(&format!("005373c00e0b{FRONT}a30161"), None, false)]
#[case::short_list(&format!("005373c00e0b{FRONT}a10161"), Some("a"), false)]
#[case::long_list(&format!("005373d0000000110000000b{FRONT}a10161"), Some("a"), false)]
#[case::long_descriptor(&format!("00800000000000000073c00e0b{FRONT}a10161"), Some("a"), false)]
#[case::long_string(&format!("005373c0110b{FRONT}b10000000161"), Some("a"), false)]
#[case::first(&format!("005373c00f0c{FRONT}a1016143"), Some("a"), false)]
#[case::second(&format!("005373c0100c{FRONT}a101615202"), Some("a"), false)]
#[case::last(&format!("005373c0130c{FRONT}a1016170ffffffff"), Some("a"), true)]
fn the_group_of_a_message_is_a_string_that_is_not_empty(
    #[case] properties: &str,
    #[case] id: Option<&str>,
    #[case] ends: bool,
) {
    let message = message(&format!("{properties}{BODY}"));
    assert_eq!(message.group_id(), id.map(str::as_bytes));
    assert_eq!(message.has_group(), id.is_some());
    assert_eq!(message.ends_group(), ends);
}
