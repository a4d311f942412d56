//! The audit log's words for requests: an action and an object for each route that changes
//! something.

use super::failure::Failure;
use super::route::{Endpoint, Params, Route};

impl Endpoint {
    /// The action on the object of its path; none: it changes nothing, or transports messages.
    const fn action(self) -> Option<&'static str> {
        Some(match self {
            Self::ImportDefinitions | Self::ImportVhostDefinitions => "import definitions",
            Self::PutQueue => "declare queue",
            Self::DeleteQueue => "delete queue",
            Self::PurgeQueue => "purge queue",
            Self::GetMessages => "get messages",
            Self::DiscardMessage => "discard message",
            Self::RetryDelayed => "retry delayed messages",
            Self::PutGroupNote => "set group note",
            Self::DeleteGroupNote => "clear group note",
            Self::ImportMessages => "import messages",
            Self::PutExchange => "declare exchange",
            Self::DeleteExchange => "delete exchange",
            Self::Bind => "bind",
            Self::Unbind => "unbind",
            Self::PutPolicy => "set policy",
            Self::DeletePolicy => "delete policy",
            Self::PutOperatorPolicy => "set operator policy",
            Self::DeleteOperatorPolicy => "delete operator policy",
            Self::PutRedrive => "redrive",
            Self::PauseRedrive => "pause redrive",
            Self::ResumeRedrive => "resume redrive",
            Self::CancelRedrive => "cancel redrive",
            Self::DeleteRedrive => "delete redrive",
            Self::CloseConnection => "close connection",
            Self::CloseUserConnections => "close connections of user",
            Self::ResetLoginAttempts | Self::ResetLoginSources => "reset login attempts",
            Self::Rebalance => "rebalance queues",
            Self::PutLogLevel => "set log level",
            Self::PutVhost => "set vhost",
            Self::DeleteVhost => "delete vhost",
            Self::PutUser => "set user",
            Self::DeleteUser => "delete user",
            Self::DeleteUsers => "delete users",
            Self::PutPermissions => "set permissions",
            Self::DeletePermissions => "delete permissions",
            Self::PutTopicPermissions => "set topic permissions",
            Self::DeleteTopicPermissions | Self::DeleteTopicPermission => {
                "delete topic permissions"
            }
            Self::PutVhostLimit => "set vhost limit",
            Self::DeleteVhostLimit => "delete vhost limit",
            Self::PutUserLimit => "set user limit",
            Self::DeleteUserLimit => "delete user limit",
            Self::PutParameter => "set parameter",
            Self::DeleteParameter => "delete parameter",
            Self::PutGlobalParameter => "set global parameter",
            Self::DeleteGlobalParameter => "delete global parameter",
            _ => return None,
        })
    }

    /// Whether it declares an object, which changes nothing if the object exists already.
    pub const fn declares(self) -> bool {
        matches!(self, Self::PutQueue | Self::PutExchange | Self::PutRedrive)
    }
}

impl Route {
    /// The action in the audit log; none: it changes nothing, or transports messages.
    pub const fn change(&self) -> Option<&'static str> {
        self.endpoint.action()
    }

    /// The action in the audit log when it is refused.
    pub fn action(&self) -> String {
        match self.change() {
            Some(action) => action.to_owned(),
            None => format!("{} {}", self.method, self.path),
        }
    }
}

impl Failure {
    /// Whether the user lacks a permission, so that another request for the same object fails, too.
    pub fn is_for_want_of_rights(&self) -> bool {
        self.error == "not_authorised"
    }
}

impl Params {
    /// The object of the path in its vhost, or the vhost.
    pub fn object(&self) -> String {
        let named = self.iter().filter(|(name, _)| *name != "vhost");
        let named: Vec<&str> = named.map(|(_, value)| value.as_str()).collect();
        if named.is_empty() {
            return self.get("vhost").to_string();
        }
        named.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::super::route::{Method, RouteMatch, find};
    use super::super::table::routes;
    use super::*;

    #[test]
    fn every_route_that_changes_something_has_a_word_in_the_audit_log() {
        for route in routes() {
            let changes_nothing = [
                Endpoint::Publish,
                Endpoint::DryRunRedrive,
                Endpoint::LintDefinitions,
                Endpoint::LintAllDefinitions,
            ];
            let expect = route.method != Method::Get && !changes_nothing.contains(&route.endpoint);
            let path = route.path;
            assert_eq!(route.change().is_some(), expect, "{} {path}", route.method);
        }
    }

    #[test]
    fn what_a_path_names_is_the_object() {
        let check = |path: &str, expect: &str| {
            let RouteMatch::Route(route, params) = find(Some(Method::Delete), path) else {
                panic!("{path}");
            };
            assert_eq!(params.object(), expect, "{}", route.path);
        };
        check("/api/queues/%2F/orders/contents", "orders");
        check("/api/vhosts/test", "test");
        check("/api/bindings/%2F/e/events/q/orders/~", "events/q/orders/~");
        check("/api/permissions/%2F/ada", "ada");
    }
}
