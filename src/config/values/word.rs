//! Settings that are one of a few words.

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
    /// How much of the evidence of deaths receivers get that do not say.
    DeathEvidence {
        /// None of it, as RabbitMQ.
        None = "none",
        /// Condition and description of the latest death.
        Error = "error",
        /// Also who caused it, and the error of each entry.
        Full = "full"
    }
);
words!(
    /// What becomes of dead letters that get nowhere.
    UndeliverableSetting {
        /// A counted drop, as RabbitMQ.
        Drop = "drop",
        /// They are kept in the quarantine of their vhost.
        Quarantine = "quarantine"
    }
);
words!(
    /// How log lines look.
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
        /// At intervals.
        Interval = "interval",
        /// When the system likes.
        Never = "never"
    }
);

words!(
    /// Where in a client certificate the user's name stands.
    TlsLoginFrom {
        /// The common name of its subject.
        CommonName = "common-name",
        /// The first alternative name of its subject that is a DNS name, a mail address or a URI.
        SubjectAlternativeName = "subject-alternative-name"
    }
);

words!(
    /// A way to log in.
    SaslMechanism {
        /// By client certificate.
        External = "EXTERNAL",
        /// By a proof of the password.
        ScramSha512 = "SCRAM-SHA-512",
        /// By a proof of the password.
        ScramSha256 = "SCRAM-SHA-256",
        /// By the password in clear.
        Plain = "PLAIN",
        /// As the user for strangers.
        Anonymous = "ANONYMOUS"
    }
);
