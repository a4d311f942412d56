use std::sync::Arc;

use rstest::rstest;

use crate::access::{Grant, Proof, Tag};
use crate::base::{Name, Timestamp};
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

/// The bearer of a token steered the redrives of a user of the same name.
#[test]
fn the_bearer_of_a_token_is_not_the_user_of_that_name() {
    let user = Identity {
        name: Name::from("ada"),
        tags: Vec::new(),
        grant: None,
    };
    assert!(user.is_user("ada", false) && !user.is_user("bob", false));
    assert!(!user.is_user("ada", true));
    let grant = Grant::new(Name::from("ada"), Timestamp(i64::MAX), ["read:*/*"]);
    let bearer = Identity::bearer(&Arc::new(grant.unwrap()));
    assert!(!bearer.is_user("ada", false) && bearer.is_user("ada", true));
    assert!(bearer.sees_of("ada", true) && !bearer.sees_of("ada", false));
    let tags = vec![Tag::Monitoring];
    let monitor = Identity { tags, ..bearer };
    assert!(monitor.sees_of("ada", false) && monitor.sees_of("bob", true));
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
