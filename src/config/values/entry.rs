//! Users and permissions, one line each.

use std::fmt;
use std::str::FromStr;

/// `NAME:PASSWORD` of a user. Prints its name only.
#[derive(Clone, PartialEq, Eq)]
pub struct UserEntry {
    /// The user's name.
    pub name: String,
    /// The password in clear; hashed before it is kept.
    pub password: String,
}

impl FromStr for UserEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None => Err("the ':' between name and password is missing".to_owned()),
            Some(("", _)) => Err("the name is empty".to_owned()),
            Some((_, "")) => Err("the password is empty".to_owned()),
            Some((name, password)) => Ok(Self {
                name: name.to_owned(),
                password: password.to_owned(),
            }),
        }
    }
}

impl fmt::Display for UserEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.password)
    }
}

impl fmt::Debug for UserEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:***", self.name)
    }
}

/// `NAME=TAG,TAG` of a user, or with spaces between the tags. Nothing behind the `=`: no tag.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserTagsEntry {
    /// The user's name.
    pub user: String,
    /// The tags, such as `administrator`.
    pub tags: Vec<String>,
}

impl FromStr for UserTagsEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((user, tags)) = text.rsplit_once('=') else {
            return Err("the '=' between name and tags is missing".to_owned());
        };
        if user.is_empty() {
            return Err("the name is empty".to_owned());
        }
        let tags = tags.split([',', ' ']).filter(|tag| !tag.is_empty());
        Ok(Self {
            user: user.to_owned(),
            tags: tags.map(str::to_owned).collect(),
        })
    }
}

impl fmt::Display for UserTagsEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.user, self.tags.join(","))
    }
}

/// `USER VHOST CONFIGURE WRITE READ`: a user's permissions in a vhost, three regular expressions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermissionEntry {
    /// The user's name.
    pub user: String,
    /// The vhost, or `*` for every vhost.
    pub vhost: String,
    /// Names it may declare and delete.
    pub configure: String,
    /// Names it may write to.
    pub write: String,
    /// Names it may read from.
    pub read: String,
}

impl FromStr for PermissionEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let mut next = || {
            words
                .next()
                .ok_or_else(|| "there are fewer than five words".to_owned())
        };
        let entry = Self {
            user: next()?,
            vhost: next()?,
            configure: next()?,
            write: next()?,
            read: next()?,
        };
        match words.next() {
            Some(extra) => Err(format!("'{extra}' is a sixth word")),
            None => Ok(entry),
        }
    }
}

impl fmt::Display for PermissionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user,
            vhost,
            configure,
            write,
            read,
        } = self;
        write!(f, "{user} {vhost} {configure} {write} {read}")
    }
}
