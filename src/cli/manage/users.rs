//! Commands for users and their passwords. Those for permissions are in `permissions`.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use clap::Args;
use serde_json::{Value, json};

use super::{Task, confirm, secret};
use crate::cli::api::{Api, Path};
use crate::cli::exit::{Failure, FailureKind};
use crate::cli::output::{self, Output};
use crate::server::random;

/// The broker's answer to a user with the right password and no tag.
const NO_TAG: &str = "Not management user";
/// Random bytes of a generated password: 24 characters.
const GENERATED_BYTES: usize = 18;

/// Adds a user, who may do nothing yet
///
/// The password is the second argument; without one it is the first line of standard input. With --generate it
/// is made here, printed once, and kept nowhere in clear.
#[derive(Args)]
pub(super) struct AddUser {
    /// Name of the new user
    username: String,
    /// Password [default: read from standard input]
    new_password: Option<String>,
    /// Makes a password and prints it, alone on a line
    #[arg(long, conflicts_with = "new_password")]
    generate: bool,
    /// Tags, such as administrator, monitoring, policymaker or management
    #[arg(long, value_delimiter = ',')]
    tags: Vec<String>,
}

/// Deletes a user
#[derive(Args)]
pub(super) struct DeleteUser {
    /// Name of the user
    username: String,
}

/// Changes a user's password
#[derive(Args)]
pub(super) struct ChangePassword {
    /// Name of the user
    username: String,
    /// New password [default: read from standard input]
    new_password: Option<String>,
}

/// Takes a user's password away: no password lets that user in any more
#[derive(Args)]
pub(super) struct ClearPassword {
    /// Name of the user
    username: String,
}

/// Tries whether a user name and a password let somebody in
#[derive(Args)]
pub(super) struct AuthenticateUser {
    /// Name of the user
    username: String,
    /// Password [default: read from standard input]
    password: Option<String>,
}

/// Replaces a user's tags; without any, removes them
#[derive(Args)]
pub(super) struct SetUserTags {
    /// Name of the user
    username: String,
    /// Tags, such as administrator, monitoring, policymaker or management
    tags: Vec<String>,
}

/// Fields of a user that must be sent again so that they stay.
const KEPT: [&str; 3] = ["password_hash", "hashing_algorithm", "tags"];

/// The current user, to change one field of it.
fn kept(api: &Api, path: &Path) -> Result<Value, Failure> {
    let user = api.get(path)?;
    let fields = KEPT
        .iter()
        .filter_map(|&name| Some((name.to_owned(), user.get(name)?.clone())));
    Ok(Value::Object(fields.collect()))
}

impl Task for AddUser {
    const NAME: &'static str = "add_user";
    const EXAMPLES: &'static [&'static str] = &[
        "add_user alice --tags monitoring < password-file",
        "add_user bob s3cret",
        "add_user carol --generate --tags administrator",
    ];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let name = &self.username;
        let path = Path::of(&["users", name]);
        if api.find(&path)?.is_some() {
            let what = format!("there is a user '{name}' already");
            return Err(Failure::new(FailureKind::Data, what).advise(format!(
                "coroner change_password {name} changes the password"
            )));
        }
        let password = if self.generate {
            BASE64_URL_SAFE_NO_PAD.encode(random::<GENERATED_BYTES>())
        } else {
            secret::given_or_read(self.new_password, name)?
        };
        let body = json!({"password": password, "tags": self.tags.join(",")});
        let answer = api.put(&path, &body)?;
        if self.generate && !out.is_json() {
            output::print(&format!("{password}\n"))?;
        } else if self.generate {
            output::print_json(&json!({ "name": name, "password": password }))?;
        }
        confirm(
            out,
            &answer,
            format_args!("user '{name}' added; set_permissions gives it permissions"),
        )
    }
}

impl Task for DeleteUser {
    const NAME: &'static str = "delete_user";
    const EXAMPLES: &'static [&'static str] = &["delete_user alice"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let answer = api.delete(&Path::of(&["users", &self.username]))?;
        confirm(
            out,
            &answer,
            format_args!("user '{}' deleted", self.username),
        )
    }
}

impl Task for ChangePassword {
    const NAME: &'static str = "change_password";
    const EXAMPLES: &'static [&'static str] = &["change_password alice < password-file"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let name = &self.username;
        let path = Path::of(&["users", name]);
        let user = api.get(&path)?;
        let password = secret::given_or_read(self.new_password, name)?;
        let tags = user.get("tags").cloned().unwrap_or_else(|| json!(""));
        let answer = api.put(&path, &json!({"password": password, "tags": tags}))?;
        confirm(
            out,
            &answer,
            format_args!("password of user '{name}' changed"),
        )
    }
}

impl Task for ClearPassword {
    const NAME: &'static str = "clear_password";
    const EXAMPLES: &'static [&'static str] = &["clear_password alice"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let path = Path::of(&["users", &self.username]);
        let user = api.get(&path)?;
        let tags = user.get("tags").cloned().unwrap_or_else(|| json!(""));
        let answer = api.put(&path, &json!({"password_hash": "", "tags": tags}))?;
        confirm(
            out,
            &answer,
            format_args!("password of user '{}' cleared", self.username),
        )
    }
}

impl Task for AuthenticateUser {
    const NAME: &'static str = "authenticate_user";
    const EXAMPLES: &'static [&'static str] = &["authenticate_user alice < password-file"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let password = secret::given_or_read(self.password, &self.username)?;
        let tried = api.log_in_as(&self.username, &password);
        match tried.get(&Path::of(&["whoami"])) {
            Ok(_) => {}
            // For a user who may not use the API, but has given the right password, some brokers
            // answer 403; RabbitMQ answers 401, and the reason says so.
            Err(failure) if failure.to_string().contains(NO_TAG) => {}
            Err(failure) => return Err(failure),
        }
        out.done(format_args!(
            "user '{}' may log in with this password",
            self.username
        ))
    }
}

impl Task for SetUserTags {
    const NAME: &'static str = "set_user_tags";
    const EXAMPLES: &'static [&'static str] = &["set_user_tags alice monitoring policymaker"];

    fn run(self, api: &Api, out: Output) -> Result<(), Failure> {
        let path = Path::of(&["users", &self.username]);
        let mut user = kept(api, &path)?;
        let tags = self.tags.join(",");
        if let Some(fields) = user.as_object_mut() {
            fields.insert("tags".to_owned(), Value::String(tags.clone()));
        }
        let answer = api.put(&path, &user)?;
        confirm(
            out,
            &answer,
            format_args!("tags of user '{}' are now '{tags}'", self.username),
        )
    }
}
