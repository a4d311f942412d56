//! The builder of an embedded broker.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::broker::Broker;
use super::errors::StartError;
use crate::config::{
    HttpListen, ListenAddress, PermissionEntry, Settings, Span, UserEntry, UserTagsEntry,
};

/// Builds a [`Broker`].
///
/// It starts with [`Settings::default`], but listens on no address: add some with
/// [`Builder::listen`] and [`Builder::http`], or use [`Broker::connect`] alone. Messages live in memory only, unless
/// [`Builder::data`] says where they are kept.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    settings: Settings,
}

impl Broker {
    /// A builder with default settings.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            settings: Settings {
                amqp: Vec::new(),
                http: HttpListen::Off,
                in_memory: true,
                ..Settings::default()
            },
        }
    }

    /// Starts from other settings, those of a file for example. Replaces all settings made before,
    /// `in-memory` too.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Changes any of the settings.
    ///
    /// ```
    /// use coroner::settings::ByteSize;
    ///
    /// let builder = coroner::Broker::builder().with(|settings| {
    ///     settings.max_message_size = ByteSize(1 << 20);
    ///     settings.node_name = "yard".to_owned();
    /// });
    /// ```
    pub fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Adds an address to listen on for AMQP; port 0 lets the system choose, see
    /// [`Broker::addresses`].
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.settings.amqp.push(ListenAddress::from(address));
        self
    }

    /// Adds an address to serve the HTTP API on, see [`Broker::http_address`].
    #[cfg(feature = "http")]
    pub fn http(mut self, address: SocketAddr) -> Self {
        self.settings.http = HttpListen::At(ListenAddress::from(address));
        self
    }

    /// Keeps durable data in this directory, which no other broker may use at the same time.
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.data = Some(directory.into());
        self.settings.in_memory = false;
        self
    }

    /// Adds a vhost to the default one, `/`.
    pub fn vhost(mut self, name: impl Into<String>) -> Self {
        self.settings.vhost.push(name.into());
        self
    }

    /// Adds a user that may do everything over AMQP, in addition to `guest` (password `guest`, from
    /// this machine only, tag `administrator`). It has no tag, so it cannot use the HTTP API: see
    /// [`Self::user_tags`].
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        let guest = self
            .settings
            .users(true)
            .filter(|user| user.name == "guest");
        let guest: Vec<_> = guest.collect();
        self.settings.user.extend(guest);
        self.settings.user.push(UserEntry {
            name: name.into(),
            password: password.into(),
        });
        self
    }

    /// Gives a user added before tags, such as `administrator` or `monitoring`: its rights over
    /// HTTP. Once this is used, `guest` too has only the tags that are given so.
    pub fn user_tags(mut self, user: impl Into<String>, tags: &[&str]) -> Self {
        self.settings.user_tags.push(UserTagsEntry {
            user: user.into(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        });
        self
    }

    /// Restricts a user in a vhost (`*`: in all) to names that match these regular expressions; a
    /// user that is restricted anywhere may access only the vhosts that are named so.
    pub fn permission(
        mut self,
        user: impl Into<String>,
        vhost: impl Into<String>,
        [configure, write, read]: [&str; 3],
    ) -> Self {
        self.settings.permission.push(PermissionEntry {
            user: user.into(),
            vhost: vhost.into(),
            configure: configure.to_owned(),
            write: write.to_owned(),
            read: read.to_owned(),
        });
        self
    }

    /// How long [`Broker::stop`] waits for peers. Default: 5 s.
    pub fn shutdown_timeout(mut self, span: Span) -> Self {
        self.settings.shutdown_timeout = span;
        self
    }

    /// Starts the broker in the current tokio runtime.
    ///
    /// When an address cannot be listened on, or a name or pattern is invalid.
    pub async fn start(self) -> Result<Broker, StartError> {
        Broker::start(self.settings).await
    }
}
