//! Percent-encoding of names in addresses and paths. [RFC 3986 2.1]

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::Name;

impl Name {
    /// Decodes one segment, strictly (the decoder itself would let everything pass): none when it
    /// has a character that must be encoded, when a `%` is not followed by two hexadecimal digits,
    /// or when the result is not UTF-8.
    pub fn percent_decoded(segment: &str) -> Option<Self> {
        if !segment.bytes().all(is_segment_byte) {
            return None;
        }
        let is_escape = |rest: &str| {
            let digits = rest.as_bytes().get(..2);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        if !segment.split('%').skip(1).all(is_escape) {
            return None;
        }
        let name = percent_decode_str(segment).decode_utf8().ok()?;
        Some(Self::from(&*name))
    }

    /// The name encoded as one segment.
    pub fn percent_encoded(&self) -> String {
        utf8_percent_encode(self, RESERVED).to_string()
    }
}

/// Whether a byte may appear in a segment unencoded, or begins an escape. [RFC 3986 3.3]
const fn is_segment_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b':'
                | b'@'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

/// The characters to encode: all but the unreserved ones. [RFC 3986 2.3]
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_decode_strictly() {
        let check = |segment: &str, expect: Option<&str>| {
            let decoded = Name::percent_decoded(segment);
            assert_eq!(decoded, expect.map(Name::from), "{segment}");
        };
        check("q1", Some("q1"));
        check("", Some(""));
        check("%C3%A4%2Fb%20c", Some("\u{e4}/b c"));
        check("a+b", Some("a+b"));
        check("-._~:@!$&'()*+,;=", Some("-._~:@!$&'()*+,;="));
        for bad in [
            "a b", "a?b", "a#b", "a\"b", "a[b", "a{b", "a\\b", "\u{e4}", "a\tb",
        ] {
            check(bad, None);
        }
        for bad in ["a%zz", "a%", "a%4", "%ff", "%%41", "%\u{e4}41"] {
            check(bad, None);
        }
    }

    #[test]
    fn encoded_names_decode_to_themselves() {
        for text in ["", "a b/\u{fc};=#", "-._~", "%41"] {
            let name = Name::from(text);
            assert_eq!(Name::percent_decoded(&name.percent_encoded()), Some(name));
        }
        assert_eq!(
            Name::from("a b/\u{fc};=#").percent_encoded(),
            "a%20b%2F%C3%BC%3B%3D%23"
        );
    }
}
