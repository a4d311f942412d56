//! Settings whose value is one of a few words.

use std::fmt;
use std::str::FromStr;

/// Declares an enum of words that parses from and prints to exactly these words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    other => Err(format!("there is no '{other}'")),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

words!(
    /// Type of a queue declared without `x-queue-type`.
    QueueType {
        /// Like RabbitMQ's classic queues.
        Classic = "classic",
        /// Like RabbitMQ's quorum queues.
        Quorum = "quorum"
    }
);
words!(
    /// How much evidence of deaths a receiver gets that does not ask for a level.
    DeathEvidence {
        /// No evidence, as RabbitMQ.
        None = "none",
        /// Condition and description of the latest death.
        Error = "error",
        /// In addition who caused the latest death, and the error of each entry.
        Full = "full"
    }
);
words!(
    /// What happens to dead letters without a target.
    UndeliverableSetting {
        /// They are dropped, and the drops are counted, as in RabbitMQ.
        Drop = "drop",
        /// They are kept in the quarantine of their vhost.
        Quarantine = "quarantine"
    }
);
words!(
    /// Whether the page for browsers is served beside the HTTP API.
    UiSetting {
        /// It is served below `/ui/`.
        On = "on",
        /// The API is served alone.
        Off = "off"
    }
);
words!(
    /// The format of log lines.
    LogFormat {
        /// One line of text per event.
        Text = "text",
        /// One JSON object per event and line.
        Json = "json"
    }
);
words!(
    /// When the journal is synced.
    SyncSetting {
        /// Before anything is confirmed.
        Always = "always",
        /// At an interval, set by `sync-interval`.
        Interval = "interval",
        /// When the system does it.
        Never = "never"
    }
);

words!(
    /// The field of a client certificate with the user's name.
    TlsLoginFrom {
        /// The common name of its subject.
        CommonName = "common-name",
        /// The first alternative name of its subject that is a DNS name, a mail address or a URI.
        SubjectAlternativeName = "subject-alternative-name"
    }
);

words!(
    /// A SASL mechanism for logins.
    SaslMechanism {
        /// By the client certificate.
        External = "EXTERNAL",
        /// By a proof of the password, with SHA-512.
        ScramSha512 = "SCRAM-SHA-512",
        /// By a proof of the password, with SHA-256.
        ScramSha256 = "SCRAM-SHA-256",
        /// By the password in clear.
        Plain = "PLAIN",
        /// By an access token.
        OAuthBearer = "OAUTHBEARER",
        /// By an access token, in an older form.
        XOAuth2 = "XOAUTH2",
        /// As the user that is configured for anonymous peers.
        Anonymous = "ANONYMOUS"
    }
);
