use rstest::rstest;

use crate::access::Proof;
use crate::access::Tag;
use crate::base::Name;
use crate::management::http::{Access, Identity, authorization};

/// Which of `[Management, Monitoring, Policymaker, Administrator]` each tag opens: measured on
/// RabbitMQ 4.0.5.
#[rstest]
#[case(&[Tag::Administrator], [true, true, true, true])]
#[case(&[Tag::Monitoring], [true, true, false, false])]
#[case(&[Tag::Policymaker], [true, false, true, false])]
#[case(&[Tag::Management], [true, false, false, false])]
#[case(&[Tag::Impersonator], [false, false, false, false])]
#[case(&[], [false, false, false, false])]
fn each_tag_opens_what_it_opens_in_rabbitmq(#[case] tags: &[Tag], #[case] expect: [bool; 4]) {
    let identity = Identity {
        name: Name::from("ada"),
        tags: tags.to_vec(),
        grant: None,
    };
    let opened = [
        Access::Management,
        Access::Monitoring,
        Access::Policymaker,
        Access::Administrator,
    ]
    .map(|access| identity.check(access).is_ok());
    assert_eq!(opened, expect);
}

#[test]
fn what_a_tag_does_not_open_is_refused_in_the_words_of_rabbitmq() {
    let identity = |tag: Tag| Identity {
        name: Name::from("ada"),
        tags: vec![tag],
        grant: None,
    };
    let refused = identity(Tag::Management).check(Access::Administrator);
    let failure = refused.unwrap_err();
    assert_eq!(failure.status, 401);
    assert_eq!(
        failure.body().to_string(),
        r#"{"error":"not_authorised","reason":"Not administrator user"}"#
    );
    assert!(identity(Tag::Management).may_enter(true).is_ok());
    assert!(identity(Tag::Monitoring).may_enter(false).is_err());
    assert!(identity(Tag::Administrator).may_enter(false).is_ok());
}

#[test]
fn basic_credentials_split_at_the_first_colon() {
    let check = |header: &str, expect: Option<(&str, &str)>| {
        let found = authorization(header).map(|found| match found {
            Proof::Password(found) => (found.user, found.password),
            Proof::Token(token) => ("a token".to_owned(), token.text),
        });
        let expect = expect.map(|(user, password)| (user.to_owned(), password.to_owned()));
        assert_eq!(found, expect, "{header}");
    };
    check("Basic Z3Vlc3Q6Z3Vlc3Q=", Some(("guest", "guest")));
    check("basic YTpiOmM=", Some(("a", "b:c")));
    check(
        "Bearer Z3Vlc3Q6Z3Vlc3Q=",
        Some(("a token", "Z3Vlc3Q6Z3Vlc3Q=")),
    );
    check("Bearer ", None);
    check("Basic guest:guest", None);
    check("Basic Z3Vlc3Q=", None);
    check("Basic", None);
}
