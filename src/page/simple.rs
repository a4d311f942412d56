//! Pages without data: logging in, and what went wrong.

use askama::Template;

use super::frame::{Frame, Theme};
use super::show::Text;

/// The form to log in.
#[derive(Template, Debug)]
#[template(path = "login.html")]
pub struct Login {
    pub theme: Theme,
    pub node: Text,
    /// Where to go then, a path of the page.
    pub next: String,
    /// Why it is asked, or why it was refused.
    pub why: Option<Text>,
    /// Whether the login would be readable by others, and is therefore not offered.
    pub is_refused: bool,
    pub style: &'static str,
    pub script: &'static str,
}

/// What went wrong.
#[derive(Template, Debug)]
#[template(path = "failure.html")]
pub struct Failed {
    pub frame: Frame,
    pub status: u16,
    pub reason: Text,
}
