//! What is around every page: navigation, who is logged in, the theme.

use askama::Template;

use super::assets::Asset;
use super::show::{Text, When};

/// The pages that the navigation leads to, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Deaths,
    Queues,
    Graph,
    Redrives,
    Lint,
    Events,
    Overview,
    Connections,
    Exchanges,
    Policies,
    Users,
    /// A page that the navigation does not lead to.
    Elsewhere,
}

impl Place {
    /// Those that the navigation leads to. A page that is added has a row here.
    pub const ALL: [Self; 11] = [
        Self::Deaths,
        Self::Queues,
        Self::Graph,
        Self::Redrives,
        Self::Lint,
        Self::Events,
        Self::Overview,
        Self::Connections,
        Self::Exchanges,
        Self::Policies,
        Self::Users,
    ];

    /// Its name in the navigation, and its path.
    pub const fn link(self) -> (&'static str, &'static str) {
        match self {
            Self::Deaths | Self::Elsewhere => ("Deaths", "/ui/"),
            Self::Queues => ("Queues", "/ui/queues"),
            Self::Graph => ("Graph", "/ui/graph"),
            Self::Redrives => ("Redrives", "/ui/redrives"),
            Self::Lint => ("Lint", "/ui/lint"),
            Self::Events => ("Events", "/ui/events"),
            Self::Overview => ("Overview", "/ui/overview"),
            Self::Connections => ("Connections", "/ui/connections"),
            Self::Exchanges => ("Exchanges", "/ui/exchanges"),
            Self::Policies => ("Policies", "/ui/policies"),
            Self::Users => ("Users", "/ui/users"),
        }
    }
}

/// Dark or light: as the system has it, unless somebody chose.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Theme {
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    /// All themes in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    /// Its word in cookie, form and document.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The theme of a word; that of the system for any other.
    pub fn from_word(word: &str) -> Self {
        let found = Self::ALL.into_iter().find(|theme| theme.as_str() == word);
        found.unwrap_or_default()
    }
}

/// What is around a page.
#[derive(Clone, Debug)]
pub struct Frame {
    pub title: String,
    pub place: Place,
    /// Who is logged in.
    pub user: Text,
    pub is_administrator: bool,
    pub is_policymaker: bool,
    pub is_monitor: bool,
    /// The session's token, in every form; empty: Basic authentication.
    pub token: String,
    pub theme: Theme,
    /// The broker's name.
    pub node: Text,
    /// When the page was made, in milliseconds since 1970.
    pub now: i64,
    /// Path and query of the page itself.
    pub here: String,
    /// Whether the script asks for what changed: then without what is around it.
    pub is_fragment: bool,
    /// What was done before this page.
    pub done: Option<&'static str>,
    /// How often the script asks for what changed, in milliseconds; none: as often as it does by itself.
    pub every_ms: Option<u32>,
}

/// What is above a page. A template of its own: in `base.html` it would be code in each page.
#[derive(Template)]
#[template(path = "top.html")]
pub struct PageTop<'a> {
    frame: &'a Frame,
}

/// What is beneath a page.
#[derive(Template)]
#[template(path = "end.html")]
pub struct PageEnd<'a> {
    frame: &'a Frame,
}

impl Frame {
    /// What is above the page.
    pub const fn top(&self) -> PageTop<'_> {
        PageTop { frame: self }
    }

    /// What is beneath the page.
    pub const fn end(&self) -> PageEnd<'_> {
        PageEnd { frame: self }
    }

    /// The path of the style sheet.
    pub fn style(&self) -> &'static str {
        &Asset::style().path
    }

    /// The path of the script.
    pub fn script(&self) -> &'static str {
        &Asset::script().path
    }

    /// Whether the navigation leads this user there.
    pub const fn shows(&self, place: &Place) -> bool {
        self.is_administrator || !matches!(place, Place::Users)
    }

    /// When it was made.
    pub const fn made(&self) -> When {
        When(Some(self.now))
    }
}
