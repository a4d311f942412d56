//! Routes to vhosts, users, permissions and limits.

use serde_json::{Value, json};

use super::api::Call;
use super::aside::aside;
use super::listings::{listed as list, vhost_totals};
use super::objects::resource_gone;
use super::reply::Reply;
use super::work::{failed, unless_deleted};
use crate::access::{Password, Tag, UserLimits};
use crate::base::Name;
use crate::broker::Warning;
use crate::broker::registry::{Registry, VhostLimits};
use crate::management::http::json::users;
use crate::management::http::{Failure, Listing};
use crate::management::{Change, NewPassword, UserChange, UserLimit, VhostChange, VhostLimit};

/// `GET /api/vhosts`.
pub(super) async fn vhosts(call: &Call<'_>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let vhosts = call.visible_vhosts();
    let names: Vec<Name> = vhosts.iter().map(|vhost| vhost.name().clone()).collect();
    let described = describe(call, names).await?;
    let kept = call.kept();
    aside(move || list(&listing, &kept, described)).await
}

/// `GET /api/vhosts/VHOST`.
pub(super) async fn vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    let listing = Listing::parse(&call.query)?;
    let described = describe(call, vec![call.params.get("vhost")]).await?;
    let found = described
        .into_iter()
        .next()
        .ok_or_else(Failure::not_found)?;
    Ok(Reply::Json(listing.project(found)))
}

async fn describe(call: &Call<'_>, names: Vec<Name>) -> Result<Vec<Value>, Failure> {
    let shared = call.shared;
    let registry = shared.node.environment.registry();
    let mut described = Vec::new();
    for name in names {
        let (Some(vhost), Some(known)) = (shared.node.vhosts.get(&name), registry.vhost(&name))
        else {
            continue;
        };
        let totals =
            aside(move || unless_deleted(&vhost, vhost_totals(&vhost)).map_err(failed)).await?;
        let Some(totals) = totals else { continue };
        let default = shared.settings.default_queue_type.to_string();
        let place = (&*shared.settings.node_name, &*default);
        let rated = (totals.counted, totals.message_rates);
        described.push(users::vhost(
            place,
            &name,
            &known.spec,
            totals.messages,
            rated,
        ));
    }
    Ok(described)
}

/// Carries out a change of the object in the path.
pub(super) async fn change(call: &Call<'_>, change: Change) -> Result<Reply, Failure> {
    let created = call.admin().change(change).await?;
    Ok(Reply::Stored {
        created,
        warnings: Vec::new(),
    })
}

/// Deletes the object in the path.
pub(super) async fn remove(call: &Call<'_>, change: Change) -> Result<Reply, Failure> {
    let removed = call.admin().change(change).await;
    removed.map_err(|refusal| resource_gone(refusal.into()))?;
    Ok(Reply::Done)
}

/// What RabbitMQ does with a vhost that has these, and Coroner does not.
/// The name that `default_queue_type` had first, which RabbitMQ still takes.
const DEFAULT_QUEUE_TYPE_BEFORE: &str = "defaultqueuetype";
const PROTECTED: &str = "protected_from_deletion";
const TRACING: &str = "tracing";

/// `PUT /api/vhosts/VHOST`.
pub(super) async fn put_vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    let known = [
        "description",
        "tags",
        "default_queue_type",
        DEFAULT_QUEUE_TYPE_BEFORE,
        PROTECTED,
        TRACING,
    ];
    let fields = call.fields_such_as(&known)?;
    let mut warnings = Vec::new();
    for name in [PROTECTED, TRACING] {
        if fields.flag(name, false)? {
            let setting = Name::from(name);
            warnings.push(Warning::Unsupported { setting });
        }
    }
    let text = |name| fields.text(name).map(|text| text.map(str::to_owned));
    let tags = fields.words("tags")?;
    let vhost = VhostChange {
        description: text("description")?,
        tags: tags.map(|tags| tags.iter().map(|tag| Name::from(&**tag)).collect()),
        default_queue_type: text("default_queue_type")?
            .or(text(DEFAULT_QUEUE_TYPE_BEFORE)?)
            .map(Name::from),
        // A user of a token's name has nothing to do with it.
        creator: Some(call.identity.name.clone()).filter(|_| call.identity.grant.is_none()),
    };
    let name = call.params.get("vhost");
    let created = call
        .admin()
        .change(Change::VhostPut { name, vhost })
        .await?;
    Ok(Reply::Stored { created, warnings })
}

/// `DELETE /api/vhosts/VHOST`.
pub(super) async fn delete_vhost(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.params.get("vhost");
    remove(call, Change::VhostDelete { name }).await
}

/// `GET /api/users`, and those without permissions anywhere.
pub(super) async fn users(call: &Call<'_>, without_permissions: bool) -> Result<Reply, Failure> {
    let registry = call.shared.node.environment.registry();
    let (listing, kept) = (Listing::parse(&call.query)?, call.kept());
    aside(move || {
        let enters = |user: &str| {
            let mut vhosts = registry.vhosts();
            vhosts.any(|(vhost, _)| registry.permissions(vhost, user).is_some())
        };
        let listed = registry
            .users()
            .filter(|user| !without_permissions || !enters(&user.name));
        list(&listing, &kept, listed.map(users::user))
    })
    .await
}

/// `GET /api/users/USER`.
pub(super) fn user(call: &Call<'_>) -> Result<Reply, Failure> {
    let registry = call.shared.node.environment.registry();
    let user = registry.user(&call.params.get("user"));
    user.map(|user| Reply::Json(users::user(user)))
        .ok_or_else(Failure::not_found)
}

/// `PUT /api/users/USER`.
pub(super) async fn put_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let known = ["password", "password_hash", "hashing_algorithm", "tags"];
    let fields = call.fields_such_as(&known)?;
    let Some(tags) = fields.words("tags")? else {
        return Err(Failure::bad_request("tags_not_present"));
    };
    let password = match (fields.text("password")?, fields.text("password_hash")?) {
        (Some(_), Some(_)) => {
            let why = "both of the fields 'password' and 'password_hash' are there";
            return Err(Failure::bad_request(why));
        }
        (Some(""), None) | (None, Some("")) => NewPassword::None,
        (Some(password), None) => NewPassword::Clear(password.to_owned()),
        (None, Some(hash)) => {
            let algorithm = fields.text("hashing_algorithm")?;
            let algorithm = algorithm.unwrap_or("rabbit_password_hashing_sha256");
            let hash = Password::from_text(hash, algorithm);
            NewPassword::Hash(hash.map_err(|error| {
                Failure::bad_request(format!("the field 'password_hash': {error}"))
            })?)
        }
        (None, None) => NewPassword::Keep,
    };
    let user = UserChange {
        password,
        tags: Some(tags.iter().map(|tag| Tag::from_word(tag)).collect()),
        limits: None,
    };
    let name = call.params.get("user");
    change(call, Change::UserPut { name, user }).await
}

/// `DELETE /api/users/USER`.
pub(super) async fn delete_user(call: &Call<'_>) -> Result<Reply, Failure> {
    let name = call.params.get("user");
    remove(call, Change::UserDelete { name }).await
}

/// `POST /api/users/bulk-delete`.
pub(super) async fn delete_users(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields_such_as(&["users"])?;
    for name in fields.words("users")?.unwrap_or_default() {
        let name = Name::from(&*name);
        let known = call
            .shared
            .node
            .environment
            .registry()
            .user(&name)
            .is_some();
        if known {
            let gone = name.clone();
            call.admin().change(Change::UserDelete { name }).await?;
            call.audit_granted("delete user", &gone);
        }
    }
    Ok(Reply::Done)
}

/// All permissions in these vhosts, of this user or of all.
fn permissions_of<'a>(
    registry: &'a Registry,
    vhost: Option<&'a str>,
    user: Option<&'a str>,
) -> impl Iterator<Item = Value> + 'a {
    let vhosts = registry.vhosts();
    let vhosts = vhosts.filter(move |(name, _)| vhost.is_none_or(|vhost| vhost == &***name));
    vhosts.flat_map(move |(name, one)| {
        let permissions = one.permissions();
        let permissions = permissions.filter(move |(who, _)| user.is_none_or(|it| it == &***who));
        permissions.map(move |(who, what)| users::permissions(who, name, what))
    })
}

fn topic_permissions_of<'a>(
    registry: &'a Registry,
    vhost: Option<&'a str>,
    user: Option<&'a str>,
) -> impl Iterator<Item = Value> + 'a {
    let vhosts = registry.vhosts();
    let vhosts = vhosts.filter(move |(name, _)| vhost.is_none_or(|vhost| vhost == &***name));
    vhosts.flat_map(move |(name, one)| {
        let users = one.topic_permissions();
        let users = users.filter(move |(who, _)| user.is_none_or(|it| it == &***who));
        users.flat_map(move |(who, map)| {
            let each = map.iter();
            each.map(move |(exchange, what)| users::topic_permissions((who, name), exchange, what))
        })
    })
}

/// The permissions to list.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// Those of all users in all vhosts.
    All,
    /// Those in the vhost of the path.
    Vhost,
    /// Those of the user of the path.
    User,
    /// Those of the user in the vhost of the path.
    UserInVhost,
}

/// Lists permissions, or shows those of a user in a vhost.
pub(super) async fn permissions(call: &Call<'_>, of: Of) -> Result<Reply, Failure> {
    let registry = call.shared.node.environment.registry();
    let (vhost, user) = known(call, &registry, of)?;
    let (listing, kept) = (Listing::parse(&call.query)?, call.kept());
    aside(move || {
        let mut listed = permissions_of(&registry, vhost.as_deref(), user.as_deref());
        if matches!(of, Of::UserInVhost) {
            return listed
                .next()
                .map(Reply::Json)
                .ok_or_else(Failure::not_found);
        }
        list(&listing, &kept, listed)
    })
    .await
}

/// Lists topic permissions.
pub(super) async fn topic_permissions(call: &Call<'_>, of: Of) -> Result<Reply, Failure> {
    let registry = call.shared.node.environment.registry();
    let (vhost, user) = known(call, &registry, of)?;
    let (listing, kept) = (Listing::parse(&call.query)?, call.kept());
    aside(move || {
        let listed = topic_permissions_of(&registry, vhost.as_deref(), user.as_deref());
        let mut listed = listed.peekable();
        if matches!(of, Of::UserInVhost) && listed.peek().is_none() {
            return Err(Failure::not_found());
        }
        list(&listing, &kept, listed)
    })
    .await
}

/// Vhost and user of the path, which must exist.
fn known(
    call: &Call<'_>,
    registry: &Registry,
    of: Of,
) -> Result<(Option<Name>, Option<Name>), Failure> {
    let vhost = matches!(of, Of::Vhost | Of::UserInVhost).then(|| call.params.get("vhost"));
    let user = matches!(of, Of::User | Of::UserInVhost).then(|| call.params.get("user"));
    let missing_vhost = vhost
        .as_ref()
        .is_some_and(|name| registry.vhost(name).is_none());
    let missing_user = user
        .as_ref()
        .is_some_and(|name| registry.user(name).is_none());
    if missing_vhost || missing_user {
        return Err(Failure::not_found());
    }
    Ok((vhost, user))
}

/// `PUT /api/permissions/VHOST/USER`.
pub(super) async fn put_permissions(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields_such_as(&["configure", "write", "read"])?;
    fields.require(&["configure", "write", "read"])?;
    let text = |name| {
        fields
            .text(name)
            .map(|text| text.unwrap_or_default().to_owned())
    };
    let patterns = [text("configure")?, text("write")?, text("read")?];
    let (vhost, user) = (call.params.get("vhost"), call.params.get("user"));
    change(
        call,
        Change::PermissionsPut {
            vhost,
            user,
            patterns,
        },
    )
    .await
    .map_err(as_bad_request)
}

/// The path names the new object; a missing object is beside it, so the request is bad (as
/// RabbitMQ).
fn as_bad_request(failure: Failure) -> Failure {
    if failure.status == 404 {
        return Failure::bad_request(failure.reason);
    }
    failure
}

/// `DELETE /api/permissions/VHOST/USER`.
pub(super) async fn delete_permissions(call: &Call<'_>) -> Result<Reply, Failure> {
    let (vhost, user) = (call.params.get("vhost"), call.params.get("user"));
    let registry = call.shared.node.environment.registry();
    if registry.permissions(&vhost, &user).is_none() {
        return Err(Failure::not_found());
    }
    remove(call, Change::PermissionsDelete { vhost, user }).await
}

/// `PUT /api/topic-permissions/VHOST/USER`.
pub(super) async fn put_topic_permissions(call: &Call<'_>) -> Result<Reply, Failure> {
    let fields = call.fields_such_as(&["exchange", "write", "read"])?;
    fields.require(&["exchange", "write", "read"])?;
    let text = |name| fields.text(name).map(Option::unwrap_or_default);
    let permissions = Change::TopicPermissionsPut {
        vhost: call.params.get("vhost"),
        user: call.params.get("user"),
        exchange: Name::from(text("exchange")?),
        patterns: [text("write")?.to_owned(), text("read")?.to_owned()],
    };
    change(call, permissions).await.map_err(as_bad_request)
}

/// `DELETE /api/topic-permissions/VHOST/USER`, and for one exchange.
pub(super) async fn delete_topic_permissions(call: &Call<'_>) -> Result<Reply, Failure> {
    let exchange = call.params.get("exchange");
    let lifted = Change::TopicPermissionsDelete {
        vhost: call.params.get("vhost"),
        user: call.params.get("user"),
        exchange: Some(exchange).filter(|exchange| !exchange.is_empty()),
    };
    remove(call, lifted).await
}

/// `GET /api/vhost-limits`, of all vhosts that the user sees or of one.
pub(super) fn vhost_limits(call: &Call<'_>, of: Of) -> Result<Reply, Failure> {
    let registry = call.shared.node.environment.registry();
    let (vhost, _) = known(call, &registry, of)?;
    let seen = call.visible_vhosts();
    let seen = seen.iter().map(|vhost| vhost.name());
    let wanted = seen.filter(|name| vhost.as_ref().is_none_or(|vhost| vhost == *name));
    let listed = wanted.filter_map(|name| {
        let limits = users::vhost_limits(registry.vhost(name)?.spec.limits);
        let some = !limits.is_empty();
        some.then(|| json!({ "vhost": &**name, "value": limits }))
    });
    Ok(Reply::Json(listed.collect()))
}

/// `GET /api/user-limits`, of all users or of one.
pub(super) fn user_limits(call: &Call<'_>, of: Of) -> Result<Reply, Failure> {
    let registry = call.shared.node.environment.registry();
    let (_, wanted) = known(call, &registry, of)?;
    let users = registry.users();
    let users = users.filter(|user| wanted.as_ref().is_none_or(|name| *name == user.name));
    let listed = users.filter_map(|user| {
        let limits = users::user_limits(user);
        let some = !limits.is_empty();
        some.then(|| json!({ "user": &*user.name, "value": limits }))
    });
    Ok(Reply::Json(listed.collect()))
}

/// The value of a limit; a negative one means none.
fn limit(call: &Call<'_>) -> Result<Option<u64>, Failure> {
    let fields = call.fields()?;
    fields.require(&["value"])?;
    let value = fields.integer("value")?.unwrap_or_default();
    Ok(u64::try_from(value).ok())
}

fn vhost_limit(call: &Call<'_>) -> Result<VhostLimit, Failure> {
    match &*call.params.get("limit") {
        "max-connections" => Ok(VhostLimit::Connections),
        "max-queues" => Ok(VhostLimit::Queues),
        other => Err(Failure::bad_request(format!(
            "there is no limit '{other}' of vhosts; known are max-connections, max-queues"
        ))),
    }
}

fn user_limit(call: &Call<'_>) -> Result<UserLimit, Failure> {
    match &*call.params.get("limit") {
        "max-connections" => Ok(UserLimit::Connections),
        "max-channels" => Ok(UserLimit::Sessions),
        other => Err(Failure::bad_request(format!(
            "there is no limit '{other}' of users; known are max-connections, max-channels"
        ))),
    }
}

/// `PUT /api/vhost-limits/VHOST/LIMIT`.
pub(super) async fn put_vhost_limit(call: &Call<'_>) -> Result<Reply, Failure> {
    let (which, value) = (vhost_limit(call)?, limit(call)?);
    let vhost = call.params.get("vhost");
    let Some(value) = value else {
        return delete_vhost_limit(call).await;
    };
    let mut limits = VhostLimits::default();
    match which {
        VhostLimit::Connections => limits.connections_max = Some(value),
        VhostLimit::Queues => limits.queues_max = Some(value),
    }
    remove(call, Change::VhostLimitsPut { vhost, limits }).await
}

/// `DELETE /api/vhost-limits/VHOST/LIMIT`.
pub(super) async fn delete_vhost_limit(call: &Call<'_>) -> Result<Reply, Failure> {
    let limit = Some(vhost_limit(call)?);
    let vhost = call.params.get("vhost");
    remove(call, Change::VhostLimitsDelete { vhost, limit }).await
}

/// `PUT /api/user-limits/USER/LIMIT`.
pub(super) async fn put_user_limit(call: &Call<'_>) -> Result<Reply, Failure> {
    let (which, value) = (user_limit(call)?, limit(call)?);
    let user = call.params.get("user");
    let Some(value) = value else {
        return delete_user_limit(call).await;
    };
    let value = u32::try_from(value).map_err(|_| {
        let (name, max) = (call.params.get("limit"), u32::MAX);
        Failure::bad_request(format!(
            "the limit '{name}' of a user is at most {max}, not {value}; -1 lifts it"
        ))
    })?;
    let mut limits = UserLimits::default();
    match which {
        UserLimit::Connections => limits.connections_max = Some(value),
        UserLimit::Sessions => limits.sessions_max = Some(value),
    }
    remove(call, Change::UserLimitsPut { user, limits }).await
}

/// `DELETE /api/user-limits/USER/LIMIT`.
pub(super) async fn delete_user_limit(call: &Call<'_>) -> Result<Reply, Failure> {
    let limit = Some(user_limit(call)?);
    let user = call.params.get("user");
    remove(call, Change::UserLimitsDelete { user, limit }).await
}
