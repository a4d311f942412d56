//! Tokens that are good, and those that are wrong in one way each.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
    RsaPublicKeyComponents,
};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::access::{Grant, Right, Tag, TokenError};
use crate::base::Timestamp;
use crate::base::limits::{JWKS_BYTES_MAX, JWKS_KEYS_MAX, TOKEN_BYTES_MAX, TOKEN_SCOPES_MAX};

/// A key of RSA with 2,048 bits, made for these tests (PKCS #8).
const RSA_KEY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC0tU4VxXMiS1O2NtDJOcEDUHhR6uVExc2EY6UYq4GQ\
    aWsYJpHsJ34NpGLdnEjD/F9X/cbSGP7NpQkjDjPHVURlngy4oP9RiauHdDvfv8QDUf4WswiecokPlvLsvwKVhkvFgzpD\
    Nceqjl+8H7WHHgzNlVPt+rcngq/Ej7OU7XI+uDCgRdm6/V9i08oTRaDRepdshA9ZHdBAOPKLoo1V0gZ7X2WJ4khw+asp\
    qugxsjdLlIR+H9sWytrooXyT4jn/fdMJhkpFGztbV92zxzcJtMiDDhiyndsesnf9xyr+DFciNtvWA7LcnPh8kwY1chGt\
    oyD/pNVGg22HD+XXSN1xdI4JAgMBAAECggEAFkcpzr5OYOJ3egXM/JnNpUp04uh6Bl36ZcFhF6cBLJwKc2pB4CLIRAdJ\
    lveO8vZ4jKEBM2KYeyLG+xbjpEXrTjnLaLGUeGloB6V5Qi7ii+Q+Vm8Q93O4WP8riKtNtsBdNAbnFmUZbfnqbIdeOj+m\
    pWus8rBPhyPx5mIu6gPR61BVHR6FAVob21dG/vmVp47wndNbhhKITRiphhNXFOOYRr7OD/gIhb5BRn+CFvhIOum3Bsu+\
    UsYyZGvGU8fGAPcKG1d9Qh6j6EIn1N7ykfiSx4pAmodGDoa68QJohuXgqS7t/2tgaMOo9BhynDSvPQcEk4i3CJ3JtrWa\
    l2riNlzm9wKBgQD8QODwuTd74McUhWCYvne/IoZA1jqtHiyY7DBUpqLMoi9EGPz285UnORLQIC083KgMUVI7lVCtBQ+E\
    wLZgNsGc310cMVvFKl+glNXbxP0FdJgQOZI30ISfH/JqoIl0r1x7bd2WtSVn1gVjJSoFtBCTV7xLChDhSxOKZ5lJXMCw\
    BwKBgQC3ZGVt1cZLQza6lY9VwvzBe7C8xRNhwSwQJ0DBhm6LIDUoqBKIhKPGL3bagULYVXt3Ye49N8r4l0BSzpbv/OM2\
    tQSUm1TveCX5L+a+bfuv2gl5rMZ7f9YgvJUQK6BFSdl/3/xq81vRXABUo1av5CUsSS0q9ttR7wtRoQlGYZEtbwKBgD6D\
    EXt2WvKfDJbgSsTvhpteQej1bgsSzDiFZ6DCvtt5Yb89dgr46ECVGz1qi+tmP1r2GCvd3+VQuLzMSSXky+xFSjy/Wp+s\
    1Y/k8m6JDa75aumyarLcQNFySE/2Qrog7wlDe8NqVr+5wRIF1rkdG3J4LphmATLjuQ72h30vuCynAoGBAJDSva6RBPjm\
    aU/LT9fgFY4NybIox3eI/uz6so6hRKallpU2tPwOEu8tCGThcxI33zqVoXfCmYzalLdP4a4/PIc1SBq618YMUaCJDWUQ\
    oZNrUdQ+dreMamKLygNtEDHncdUj4sfqynV4e+Ja4tggCKMCXqLxMp1vcrbRvutPnUANAoGALzFOQVzatpwB9oTFrWSt\
    yLjcGnT6RmFZgAl/2jRO/mtGu4WLn++yFvKIWxQkV790vfqmZIlcy3U7rRUcoYoON9SDDlurmamRvxjnGY3xDH1srMRO\
    Z/PeZ00s4eMOCkrk7Ca8qRgcZeezqVUSHyT3vKZ6xotHbkP2Rvk75A4qM3s=";
/// The moment of the tests, in seconds.
const NOW_S: i64 = 1_800_000_000;

/// Who issues tokens: a key of each kind.
struct Issuer {
    random: SystemRandom,
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let ecdsa = |algorithm: &'static EcdsaSigningAlgorithm| {
            let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).unwrap()
        };
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: RsaKeyPair::from_pkcs8(&STANDARD.decode(RSA_KEY).unwrap()).unwrap(),
            p256: ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            p384: ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).unwrap(),
            random,
        }
    }

    fn rsa_public(&self) -> RsaPublicKeyComponents<Vec<u8>> {
        RsaPublicKeyComponents::from(self.rsa.public())
    }

    fn jwks(&self) -> Value {
        let RsaPublicKeyComponents { n, e } = self.rsa_public();
        let curve = |name: &str, pair: &EcdsaKeyPair, size: usize| {
            let point = pair.public_key().as_ref();
            json!({ "kty": "EC", "crv": name, "kid": name, "use": "sig",
                "x": encoded(&point[1..=size]), "y": encoded(&point[size + 1..]) })
        };
        let ed25519 = encoded(self.ed25519.public_key().as_ref());
        json!({ "keys": [
            { "kty": "RSA", "kid": "rsa", "n": encoded(&n), "e": encoded(&e) },
            curve("P-256", &self.p256, 32),
            curve("P-384", &self.p384, 48),
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": ed25519 },
            { "kty": "oct", "kid": "secret", "k": encoded(b"secret") },
            { "kty": "RSA", "kid": "for encryption", "use": "enc", "n": "AQ", "e": "AQAB" },
            { "kty": "of tomorrow", "kid": "new" },
        ] })
    }

    fn keys(&self) -> KeySet {
        KeySet::parse(self.jwks().to_string().as_bytes()).unwrap()
    }

    /// A token with this header, signed as its algorithm says.
    fn token_of(&self, header: &Value, claims: &Value) -> String {
        let [header_text, claims] =
            [header, claims].map(|part| encoded(part.to_string().as_bytes()));
        let message = format!("{header_text}.{claims}");
        let rsa = |padding: &'static dyn RsaEncoding| {
            let mut signature = vec![0; self.rsa.public().modulus_len()];
            let signed = self
                .rsa
                .sign(padding, &self.random, message.as_bytes(), &mut signature);
            signed.unwrap();
            signature
        };
        let ecdsa = |pair: &EcdsaKeyPair| {
            let signed = pair.sign(&self.random, message.as_bytes()).unwrap();
            signed.as_ref().to_vec()
        };
        let signature = match header["alg"].as_str() {
            Some("RS256") => rsa(&RSA_PKCS1_SHA256),
            Some("RS384") => rsa(&RSA_PKCS1_SHA384),
            Some("RS512") => rsa(&RSA_PKCS1_SHA512),
            Some("PS256") => rsa(&RSA_PSS_SHA256),
            Some("PS384") => rsa(&RSA_PSS_SHA384),
            Some("PS512") => rsa(&RSA_PSS_SHA512),
            Some("ES256") => ecdsa(&self.p256),
            Some("ES384") => ecdsa(&self.p384),
            Some("EdDSA") => self.ed25519.sign(message.as_bytes()).as_ref().to_vec(),
            Some("HS256") => {
                // The attack that takes a public key for a shared secret.
                let public = self.rsa_public().n;
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &public);
                ring::hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
            }
            _ => Vec::new(),
        };
        format!("{message}.{}", encoded(&signature))
    }

    fn token(&self, claims: &Value) -> String {
        self.token_of(&json!({ "alg": "ES256", "kid": "P-256" }), claims)
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rules() -> TokenRules {
    TokenRules {
        resource_server_id: "rabbitmq".to_owned(),
        issuer: Some("https://issuer.example".to_owned()),
        verify_aud: true,
        scope_prefix: "rabbitmq.".to_owned(),
        additional_scopes_key: None,
        preferred_username_claims: Vec::new(),
    }
}

/// Good claims, with some replaced; null: left out.
fn claims(replaced: &Value) -> Value {
    let mut claims = json!({
        "iss": "https://issuer.example",
        "aud": "rabbitmq",
        "sub": "ada",
        "exp": NOW_S + 60,
        "scope": "openid rabbitmq.read:*/* rabbitmq.tag:management other.write:*/*",
    });
    for (name, value) in replaced.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    claims
}

fn check(rules: &TokenRules, token: &str, keys: &KeySet) -> Result<Grant, TokenError> {
    rules.check(token, keys, Timestamp(NOW_S * 1_000))
}

/// What good claims with some replaced lead to.
fn judge(rules: &TokenRules, replaced: &Value) -> Result<Grant, TokenError> {
    let issuer = Issuer::new();
    check(rules, &issuer.token(&claims(replaced)), &issuer.keys())
}

#[test]
fn a_good_token_gives_user_scopes_and_tags() {
    let grant = judge(&rules(), &json!({})).unwrap();
    assert_eq!(grant.user().as_str(), "ada");
    assert_eq!(grant.tags(), [Tag::Management]);
    assert_eq!(grant.expires(), Timestamp((NOW_S + 60) * 1_000));
    let permissions = grant.permissions("/").unwrap();
    assert!(permissions.allow(Right::Read, "q") && !permissions.allow(Right::Write, "q"));
}

#[rstest]
#[case("RS256", "rsa")]
#[case("RS384", "rsa")]
#[case("RS512", "rsa")]
#[case("PS256", "rsa")]
#[case("PS384", "rsa")]
#[case("PS512", "rsa")]
#[case("ES256", "P-256")]
#[case("ES384", "P-384")]
#[case("EdDSA", "ed")]
fn signatures_of_each_algorithm_are_checked(#[case] algorithm: &str, #[case] kid: &str) {
    let issuer = Issuer::new();
    let header = json!({ "alg": algorithm, "kid": kid, "typ": "JWT" });
    let good = issuer.token_of(&header, &claims(&json!({})));
    let keys = issuer.keys();
    assert!(check(&rules(), &good, &keys).is_ok());
    let without_kid = issuer.token_of(&json!({ "alg": algorithm }), &claims(&json!({})));
    assert!(check(&rules(), &without_kid, &keys).is_ok(), "one key fits");
    let (message, signature) = good.rsplit_once('.').unwrap();
    let other = issuer.token_of(&header, &claims(&json!({ "sub": "eve" })));
    let (of_eve, _) = other.rsplit_once('.').unwrap();
    for wrong in [format!("{of_eve}.{signature}"), format!("{message}.")] {
        assert_eq!(check(&rules(), &wrong, &keys), Err(TokenError::Signature));
    }
    let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
    bytes[10] ^= 1;
    let wrong = format!("{message}.{}", encoded(&bytes));
    assert_eq!(check(&rules(), &wrong, &keys), Err(TokenError::Signature));
}

#[rstest]
#[case(json!({ "alg": "none" }), TokenError::Algorithm)]
#[case(json!({ "alg": "NONE", "kid": "rsa" }), TokenError::Algorithm)]
#[case(json!({ "alg": "HS256", "kid": "rsa" }), TokenError::Algorithm)]
#[case(json!({ "alg": "HS256", "kid": "secret" }), TokenError::Algorithm)]
#[case(json!({ "alg": "RS256", "kid": "secret" }), TokenError::UnknownKey)]
#[case(json!({ "alg": "RS256", "kid": "for encryption" }), TokenError::UnknownKey)]
#[case(json!({ "alg": "RS256", "kid": "P-256" }), TokenError::Algorithm)]
#[case(json!({ "alg": "ES384", "kid": "P-256" }), TokenError::Algorithm)]
#[case(json!({ "alg": "EdDSA", "kid": "rsa" }), TokenError::Algorithm)]
#[case(json!({ "alg": "ES256", "kid": "P-384" }), TokenError::Algorithm)]
#[case(json!({ "alg": "RS256", "kid": "of others" }), TokenError::UnknownKey)]
#[case(json!({ "kid": "rsa" }), TokenError::Algorithm)]
#[case(json!({ "alg": 5, "kid": "rsa" }), TokenError::Malformed)]
#[case(json!({ "alg": "RS256", "kid": 5 }), TokenError::Malformed)]
#[case(json!({ "alg": "RS256", "kid": "rsa", "crit": ["b64"] }), TokenError::Malformed)]
fn the_header_chooses_neither_key_nor_algorithm(#[case] header: Value, #[case] expect: TokenError) {
    let issuer = Issuer::new();
    let token = issuer.token_of(&header, &claims(&json!({})));
    assert_eq!(
        check(&rules(), &token, &issuer.keys()),
        Err(expect),
        "{header}"
    );
}

/// A token may bring a key of its own, or say where one is: neither is looked at.
#[test]
fn keys_in_a_token_are_not_used() {
    let (issuer, eve) = (Issuer::new(), Issuer::new());
    let of_eve = eve.jwks()["keys"][1].clone();
    let header =
        json!({ "alg": "ES256", "kid": "P-256", "jwk": of_eve, "jku": "http://127.0.0.1/" });
    let token = eve.token_of(&header, &claims(&json!({})));
    assert_eq!(
        check(&rules(), &token, &issuer.keys()),
        Err(TokenError::Signature)
    );
}

#[rstest]
#[case(json!({ "exp": NOW_S }), Err(TokenError::Expired))]
#[case(json!({ "exp": NOW_S - 1 }), Err(TokenError::Expired))]
#[case(json!({ "exp": -5 }), Err(TokenError::Expired))]
#[case(json!({ "exp": 1_800_000_000.5 }), Ok(()))]
#[case(json!({ "exp": 1e300 }), Ok(()))]
#[case(json!({ "exp": null }), Err(TokenError::NoEnd))]
#[case(json!({ "exp": "1800000060" }), Err(TokenError::Malformed))]
#[case(json!({ "nbf": NOW_S - 5 }), Ok(()))]
#[case(json!({ "nbf": NOW_S + 30 }), Ok(()))]
#[case(json!({ "nbf": NOW_S + 31 }), Err(TokenError::NotYet))]
#[case(json!({ "nbf": "soon" }), Err(TokenError::Malformed))]
#[case(json!({ "iss": "https://issuer.example/" }), Err(TokenError::Issuer))]
#[case(json!({ "iss": null }), Err(TokenError::Issuer))]
#[case(json!({ "aud": ["other", "rabbitmq"] }), Ok(()))]
#[case(json!({ "aud": ["other"] }), Err(TokenError::Audience))]
#[case(json!({ "aud": "rabbitmq2" }), Err(TokenError::Audience))]
#[case(json!({ "aud": null }), Err(TokenError::Audience))]
#[case(json!({ "sub": "" }), Err(TokenError::NoUser))]
#[case(json!({ "sub": null }), Err(TokenError::NoUser))]
#[case(json!({ "sub": "a\nb" }), Err(TokenError::NoUser))]
#[case(json!({ "sub": "a".repeat(256) }), Err(TokenError::NoUser))]
#[case(json!({ "sub": 7 }), Err(TokenError::NoUser))]
#[case(json!({ "scope": null }), Ok(()))]
fn claims_are_checked(#[case] replaced: Value, #[case] expect: Result<(), TokenError>) {
    assert_eq!(judge(&rules(), &replaced).map(|_| ()), expect, "{replaced}");
}

#[rstest]
#[case(json!({ "sub": null, "client_id": "app" }), &[], "app")]
#[case(json!({ "client_id": "app" }), &[], "ada")]
#[case(json!({ "email": "a@example" }), &["name", "email"], "a@example")]
#[case(json!({}), &["email"], "ada")]
fn the_user_is_the_first_claim_that_is_there(
    #[case] replaced: Value,
    #[case] preferred: &[&str],
    #[case] expect: &str,
) {
    let rules = TokenRules {
        preferred_username_claims: preferred.iter().map(|&name| name.to_owned()).collect(),
        ..rules()
    };
    let grant = judge(&rules, &replaced).unwrap();
    assert_eq!(grant.user().as_str(), expect);
}

#[rstest]
#[case(json!({ "scope": ["rabbitmq.read:*/q"] }), None, true)]
#[case(json!({ "scope": ["rabbitmq.write:*/* rabbitmq.read:*/q"] }), None, true)]
#[case(json!({ "scope": "read:*/q" }), None, false)]
#[case(json!({ "scope": { "rabbitmq": "read:*/q" } }), None, false)]
#[case(json!({ "scope": "", "roles": "rabbitmq.read:*/q" }), None, false)]
#[case(json!({ "scope": "", "roles": "rabbitmq.read:*/q" }), Some("roles"), true)]
#[case(json!({ "scope": "", "roles": { "rabbitmq": "read:*/q" } }), Some("roles"), true)]
#[case(json!({ "scope": "", "roles": { "other": "read:*/q" } }), Some("roles"), false)]
#[case(json!({ "scope": "", "a": { "b": ["rabbitmq.read:*/q"] } }), Some("a.b"), true)]
fn scopes_are_a_text_or_a_list_and_may_stand_in_a_further_claim(
    #[case] replaced: Value,
    #[case] key: Option<&str>,
    #[case] expect: bool,
) {
    let rules = TokenRules {
        additional_scopes_key: key.map(str::to_owned),
        ..rules()
    };
    let grant = judge(&rules, &replaced).unwrap();
    let permissions = grant.permissions("/");
    let allowed = permissions.is_some_and(|permissions| permissions.allow(Right::Read, "q"));
    assert_eq!(allowed, expect, "{replaced}");
}

#[test]
fn what_is_not_configured_is_not_checked() {
    let open = TokenRules {
        issuer: None,
        verify_aud: false,
        scope_prefix: String::new(),
        ..rules()
    };
    let replaced = json!({ "iss": null, "aud": null, "scope": "read:*/*" });
    assert!(judge(&open, &replaced).unwrap().opens("/"));
}

#[test]
fn what_is_huge_is_refused() {
    let long = json!({ "more": "x".repeat(TOKEN_BYTES_MAX) });
    assert_eq!(judge(&rules(), &long), Err(TokenError::TooLong));
    let scopes = "rabbitmq.read:*/*".to_owned() + &" rabbitmq.tag:a".repeat(TOKEN_SCOPES_MAX);
    let scopes = json!({ "scope": scopes });
    assert_eq!(judge(&rules(), &scopes), Err(TokenError::TooManyScopes));
}

#[rstest]
#[case("")]
#[case("a.b")]
#[case("..")]
#[case("a.b.c.d")]
#[case("e30.e30.")]
#[case("eyJhbGciOiJSUzI1NiJ9.W10.AA")]
#[case("eyJhbGciOiJSUzI1NiJ9.e30=.AA")]
fn what_is_no_token_is_refused_and_panics_nowhere(#[case] text: &str) {
    let refused = check(&rules(), text, &Issuer::new().keys());
    assert!(
        matches!(refused, Err(TokenError::Malformed | TokenError::Algorithm)),
        "{text}"
    );
    assert_eq!(claimed_user(text), "");
}

#[test]
fn a_password_with_dots_is_no_token() {
    let token = Issuer::new().token(&claims(&json!({})));
    assert!(is_token(&token));
    assert_eq!(claimed_user(&token), "ada");
    for password in ["secret", "a.b.c", "e30.e30.", "eyJhbGciOiJub25lIn0.x", ""] {
        assert!(!is_token(password), "{password}");
    }
    assert!(
        is_token("eyJhbGciOiJub25lIn0.x."),
        "a token that is refused"
    );
}

#[rstest]
#[case("[]", "no JSON object")]
#[case("{", "no JSON object")]
#[case(r#"{"keys":{}}"#, "no such list")]
#[case(r#"{"keys":[]}"#, "no public key")]
#[case(r#"{"keys":[{"kty":"oct","k":"AA"}]}"#, "no public key")]
#[case(r#"{"keys":[{}]}"#, "key 1 of the set: 'kty' is missing")]
#[case(r#"{"keys":[{"kty":"RSA","e":"AQAB"}]}"#, "'n' is missing")]
#[case(r#"{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"}]}"#, "2048 to 8192 bits")]
#[case(
    r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}]}"#,
    "32 bytes"
)]
#[case(
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"=="}]}"#,
    "'x' is not base64url"
)]
fn sets_of_keys_that_cannot_be_used_are_told_why(#[case] text: &str, #[case] why: &str) {
    let error = KeySet::parse(text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn sets_of_keys_are_bounded() {
    let key = |number: usize| json!({ "kty": "OKP", "crv": "Ed25519", "kid": number.to_string(), "x": "AA" });
    let set = |count: usize| json!({ "keys": (0..count).map(key).collect::<Vec<_>>() }).to_string();
    assert_eq!(
        KeySet::parse(set(JWKS_KEYS_MAX).as_bytes()).unwrap().len(),
        JWKS_KEYS_MAX
    );
    let error = KeySet::parse(set(JWKS_KEYS_MAX + 1).as_bytes());
    assert_eq!(error.unwrap_err(), KeySetError::TooMany);
    let long = format!("{}{}", set(1), " ".repeat(JWKS_BYTES_MAX));
    assert_eq!(
        KeySet::parse(long.as_bytes()).unwrap_err(),
        KeySetError::TooLong
    );
}

#[test]
fn two_keys_of_one_name_are_never_guessed_between() {
    let issuer = Issuer::new();
    let mut set = issuer.jwks();
    let again = set["keys"][1].clone();
    set["keys"].as_array_mut().unwrap().push(again);
    let keys = KeySet::parse(set.to_string().as_bytes()).unwrap();
    let token = issuer.token(&claims(&json!({})));
    assert_eq!(check(&rules(), &token, &keys), Err(TokenError::SeveralKeys));
}

#[test]
fn a_key_is_used_with_the_algorithm_that_it_names_only() {
    let issuer = Issuer::new();
    let mut set = issuer.jwks();
    set["keys"][0]["alg"] = json!("RS512");
    let keys = KeySet::parse(set.to_string().as_bytes()).unwrap();
    let signed = |algorithm: &str| {
        let header = json!({ "alg": algorithm, "kid": "rsa" });
        let token = issuer.token_of(&header, &claims(&json!({})));
        check(&rules(), &token, &keys).map(|_| ())
    };
    assert_eq!(signed("RS512"), Ok(()));
    assert_eq!(signed("RS256"), Err(TokenError::Algorithm));
    assert_eq!(signed("PS512"), Err(TokenError::Algorithm));
}
