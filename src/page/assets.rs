//! Style and script of the page: in the program, under names that change with what they hold.

use std::fmt::Write as _;
use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// A file that the page loads.
#[derive(Debug)]
pub struct Asset {
    /// Its path, with a part of the hash of its bytes.
    pub path: String,
    /// The type of its content.
    pub content_type: &'static str,
    /// The content of the file.
    pub bytes: &'static [u8],
}

/// Digits of the hash in a name.
const HASH_BYTES: usize = 8;

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/coroner.css");
    Asset::new("css", "text/css; charset=utf-8", bytes)
});
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/coroner.js");
    Asset::new("js", "text/javascript; charset=utf-8", bytes)
});

impl Asset {
    fn new(ending: &str, content_type: &'static str, bytes: &'static [u8]) -> Self {
        let mut path = "/ui/assets/coroner-".to_owned();
        for byte in Sha256::digest(bytes).iter().take(HASH_BYTES) {
            // Writing to a string cannot fail.
            let _ = write!(path, "{byte:02x}");
        }
        Self {
            path: format!("{path}.{ending}"),
            content_type,
            bytes,
        }
    }

    /// The style sheet of all pages.
    pub fn style() -> &'static Self {
        &STYLE
    }

    /// The script that makes pages live.
    pub fn script() -> &'static Self {
        &SCRIPT
    }

    /// The file at a path.
    pub fn find(path: &str) -> Option<&'static Self> {
        [Self::style(), Self::script()]
            .into_iter()
            .find(|asset| asset.path == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a browser loads once, over a slow line too.
    const BYTES_MAX: usize = 100_000;
    /// What one person reads in one go.
    const SCRIPT_LINES_MAX: usize = 400;

    #[test]
    fn the_assets_are_small_and_named_by_what_they_hold() {
        let (style, script) = (Asset::style(), Asset::script());
        assert!(style.bytes.len() + script.bytes.len() <= BYTES_MAX);
        let text = std::str::from_utf8(script.bytes).unwrap();
        assert!(text.lines().count() <= SCRIPT_LINES_MAX);
        assert_ne!(style.path, script.path);
        assert!(Asset::find(&style.path).is_some());
        assert!(Asset::find("/ui/assets/coroner-0.css").is_none());
        let other = Asset::new("css", "text/css", b"other");
        assert_ne!(other.path, style.path);
    }

    /// The policy of the page forbids all of these: the browser would refuse them one by one.
    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        for asset in [Asset::style(), Asset::script()] {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for foreign in ["http:", "https:", "@import", "eval(", "innerHTML"] {
                let found = text.lines().find(|line| line.contains(foreign));
                let is_ours = found.is_none_or(|line| line.contains("// Trusted Types"));
                assert!(is_ours, "{foreign}: {found:?}");
            }
        }
    }
}
