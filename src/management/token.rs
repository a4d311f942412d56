//! Tokens that stand for the arguments of a binding in its path.

use crate::base::Name;
use crate::wire::{Value, encode_value};

/// The token of a binding's arguments, which are sorted by name: empty without arguments, else a
/// 32-bit hash in base64url without padding. Stable across restarts and versions, because clients may
/// keep it.
pub fn binding_token(arguments: &[(Name, Value)]) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let mut encoded = Vec::new();
    for (name, value) in arguments {
        encode_value(&Value::string(name.as_str()), &mut encoded);
        encode_value(value, &mut encoded);
    }
    base64url(fnv1a(&encoded))
}

/// The FNV-1a hash with 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    const OFFSET: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let fold = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(OFFSET, fold)
}

/// Base64url of the four bytes of a number, big end first, without padding. [RFC 4648 5]
fn base64url(number: u32) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 32 bits and 4 bits of zeros are six digits of 6 bits.
    let bits = u64::from(number) << 4;
    let digits = [30, 24, 18, 12, 6, 0].map(|shift| (bits >> shift) & 0x3f);
    let letters = digits.iter().filter_map(|digit| {
        let at = usize::try_from(*digit).ok()?;
        ALPHABET.get(at).copied().map(char::from)
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_of_four_bytes_has_six_letters() {
        assert_eq!(base64url(0), "AAAAAA");
        assert_eq!(base64url(u32::MAX), "_____w");
        // The bytes behind the token in the recordings.
        assert_eq!(base64url(0x3367_2e3f), "M2cuPw");
    }

    #[test]
    fn fnv1a_gives_its_published_values() {
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn tokens_tell_arguments_apart() {
        let token = |value| binding_token(&[(Name::from("n"), value)]);
        assert_eq!(binding_token(&[]), "");
        assert_eq!(token(Value::Uint(3)), token(Value::Uint(3)));
        assert_ne!(token(Value::Uint(3)), token(Value::Uint(4)));
        assert_ne!(token(Value::Uint(3)), token(Value::Long(3)));
    }
}
