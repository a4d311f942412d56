//! What is checked of a note on a group of dead letters. [evidence part 8]

use super::Refusal;
use crate::base::limits::GROUP_NOTE_BYTES_MAX;
use crate::search::Fingerprint;

/// Checks the key of a group, and the text of a note on it; none: the note is to be removed.
pub(crate) fn check_group_note(key: &str, text: Option<&str>) -> Result<(), Refusal> {
    if !Fingerprint::is_key(key) {
        let key: String = key.chars().take(64).collect();
        return Err(Refusal::bad_request(format!(
            "'{key}' is no key of a group: '1:' and 8 hexadecimal digits, or 'none', as groups by \
             'group' have them"
        )));
    }
    let Some(text) = text else {
        return Ok(());
    };
    let why = if text.trim().is_empty() {
        "the field 'note' is empty: DELETE removes a note".to_owned()
    } else if text.len() > GROUP_NOTE_BYTES_MAX {
        format!("the field 'note' has more than {GROUP_NOTE_BYTES_MAX} bytes")
    } else {
        return Ok(());
    };
    Err(Refusal::bad_request(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_short_texts_on_fingerprints() {
        let longest = "n".repeat(GROUP_NOTE_BYTES_MAX);
        for (key, text) in [
            ("1:9c2e41aa", Some("see ticket 7")),
            ("none", Some(&*longest)),
            ("1:00000000", None),
        ] {
            assert_eq!(check_group_note(key, text), Ok(()), "{key}");
        }
        let longer = "n".repeat(GROUP_NOTE_BYTES_MAX + 1);
        for (key, text, says) in [
            ("rejected", Some("x"), "'rejected' is no key"),
            ("1:9C2E41AA", None, "8 hexadecimal digits"),
            ("1:9c2e41aa", Some(" "), "'note' is empty"),
            ("1:9c2e41aa", Some(&*longer), "more than 1024 bytes"),
        ] {
            let why = check_group_note(key, text).unwrap_err().why;
            assert!(why.contains(says), "{why}");
        }
    }
}
