//! The page that a browser shows: templates, style, script, and what is shown in them. Pure: it gets
//! answers of the HTTP API's operations and gives HTML.
//!
//! ```text
//!  server/http/ui: who asks, which page --> the operations behind the API's routes, as that user
//!                                                |
//!  page: JSON of these answers --> a struct of this module --> its template --> HTML
//! ```
//!
//! Promises: templates are checked when it is compiled; a text of somebody else is a
//! [`show::Text`], which escapes HTML and shows control characters; nothing inline, nothing from
//! elsewhere. Never: no decision, no right, no rule of routing or dying.
//!
//! A page is added in four places: a struct here with its template in `templates/` (which extends
//! `base.html`; what changes while it is open has an `id` and `data-live`), a row of
//! [`frame::Place`] if the navigation leads to it, and in `server/http/ui` a function that asks
//! for its answers and an arm of `pages::page`. What it changes is an arm of `actions`. `interop/page`
//! opens it.
#![allow(
    missing_docs,
    reason = "fields that are not documented are those of the API of the same name"
)]

#[macro_use]
pub mod answer;
pub mod assets;
pub mod deaths;
pub mod events;
pub mod frame;
pub mod graph;
pub mod message;
pub mod operator;
pub mod queue;
pub mod queues;
pub mod redrive;
pub mod show;
pub mod simple;

use askama::Template;

/// A page of any kind, ready to be written.
pub trait AnyPage: Send {
    /// Writes it as HTML.
    fn html(&self) -> Result<String, askama::Error>;
}

impl<T: Template + Send> AnyPage for T {
    fn html(&self) -> Result<String, askama::Error> {
        self.render()
    }
}
