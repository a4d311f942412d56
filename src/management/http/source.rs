//! The source of a request: whether a page of another site may have made a browser send it, with
//! the login that the browser remembers. [RFC 6454, Fetch Metadata]

use super::failure::Failure;
use super::route::Method;

/// The headers about the source of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// Header `Host`, or the authority of the request's target.
    pub host: Option<&'a str>,
    /// Header `Origin`, if present.
    pub origin: Option<&'a str>,
    /// Header `Sec-Fetch-Site`, if present.
    pub fetch_site: Option<&'a str>,
}

impl Source<'_> {
    /// Refuses a request that another site made a browser send. `hosts` are names of this machine
    /// besides its own, `is_loopback`: the request came to a loopback address. A name that resolves
    /// to one may be anybody's (DNS rebinding).
    pub fn check(
        &self,
        method: Option<Method>,
        is_loopback: bool,
        hosts: &[String],
    ) -> Result<(), Failure> {
        if let Some(host) = self.host.filter(|_| is_loopback)
            && !is_own_name(host_name(host), hosts)
        {
            return Err(Failure::forbidden(format!(
                "the field Host names '{}', but the request came by a loopback address: use \
                 localhost or an IP address, or list the name in the setting http-host",
                shown(host)
            )));
        }
        if matches!(method, Some(Method::Get)) {
            return Ok(());
        }
        if let Some(site) = self.fetch_site
            && !matches!(site, "same-origin" | "none")
        {
            return Err(Failure::forbidden(format!(
                "a page of another site made this request: Sec-Fetch-Site is '{}'",
                shown(site)
            )));
        }
        match (self.origin, self.host) {
            (None, _) => Ok(()),
            (Some(origin), Some(host)) if is_same(origin, host) => Ok(()),
            (Some(origin), _) => Err(Failure::forbidden(format!(
                "a page of another site made this request: Origin is '{}'",
                shown(origin)
            ))),
        }
    }

    /// Whether a browser says that it sent this.
    pub const fn is_of_a_page(&self) -> bool {
        self.origin.is_some() || self.fetch_site.is_some()
    }
}

/// Refuses a body with a content type other than JSON. None is accepted, and so is the default of
/// `curl -d`, since a browser that sends a form tells its origin.
pub fn check_content_type(given: Option<&str>, source: &Source<'_>) -> Result<(), Failure> {
    let Some(given) = given else {
        return Ok(());
    };
    let kind = given.split(';').next().unwrap_or_default().trim();
    let is_json = kind.eq_ignore_ascii_case("application/json")
        || (kind.len() > JSON_SUFFIX.len()
            && kind
                .get(kind.len() - JSON_SUFFIX.len()..)
                .is_some_and(|end| end.eq_ignore_ascii_case(JSON_SUFFIX)));
    let is_form = kind.eq_ignore_ascii_case("application/x-www-form-urlencoded");
    if is_json || (is_form && !source.is_of_a_page()) {
        return Ok(());
    }
    Err(Failure::unsupported_media_type(format!(
        "the body must be application/json, not '{}'",
        shown(given)
    )))
}

/// Suffix of the names of formats that are JSON. [RFC 6839 3.1]
const JSON_SUFFIX: &str = "+json";

/// Characters of a header that a failure repeats, at most.
const SHOWN_CHARS_MAX: usize = 64;

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// A host without its port; an IPv6 address without its brackets. [RFC 3986 3.2.2]
fn host_name(authority: &str) -> &str {
    if let Some(address) = authority.strip_prefix('[') {
        return address.split(']').next().unwrap_or_default();
    }
    let name = authority.split(':').next().unwrap_or_default();
    name.strip_suffix('.').unwrap_or(name)
}

fn is_own_name(name: &str, hosts: &[String]) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<std::net::IpAddr>().is_ok()
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(&name))
}

/// Whether an origin is the requested host; ports that the scheme implies may be left out.
fn is_same(origin: &str, host: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let implied = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let bare = |authority: &str| {
        let authority = authority.to_ascii_lowercase();
        let bare = authority.strip_suffix(implied).map(str::to_owned);
        bare.unwrap_or(authority)
    };
    bare(authority) == bare(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "localhost:15672";

    #[test]
    fn what_changes_something_is_refused_when_another_site_made_a_browser_ask() {
        let check = |method, origin: Option<&str>, fetch_site: Option<&str>, taken: bool| {
            let source = Source {
                host: Some(OWN),
                origin,
                fetch_site,
            };
            let found = source.check(Some(method), true, &[]);
            assert_eq!(found.is_ok(), taken, "{method:?} {source:?} {found:?}");
        };
        let (foreign, own) = (Some("http://evil.example"), Some("http://localhost:15672"));
        for method in [Method::Put, Method::Post, Method::Delete] {
            check(method, None, None, true);
            check(method, own, None, true);
            check(method, own, Some("same-origin"), true);
            check(method, None, Some("none"), true);
            check(method, foreign, None, false);
            check(method, Some("http://localhost:3000"), None, false);
            check(method, Some("null"), None, false);
            check(method, None, Some("cross-site"), false);
            check(method, None, Some("same-site"), false);
            check(method, own, Some("cross-site"), false);
        }
        check(Method::Get, foreign, Some("cross-site"), true);
    }

    #[test]
    fn a_name_that_leads_to_a_loopback_address_must_be_our_own() {
        let hosts = ["broker.example".to_owned()];
        let check = |host: &str, is_loopback: bool, taken: bool| {
            let source = Source {
                host: Some(host),
                ..Source::default()
            };
            let found = source.check(Some(Method::Get), is_loopback, &hosts);
            assert_eq!(found.is_ok(), taken, "{host} {is_loopback} {found:?}");
        };
        for own in [
            "localhost",
            "LOCALHOST:1",
            "a.localhost",
            "127.0.0.1:9",
            "[::1]:9",
        ] {
            check(own, true, true);
        }
        check("broker.example:15672", true, true);
        check("Broker.Example.", true, true);
        for foreign in [
            "evil.example",
            "evil.example:15672",
            "localhost.evil.example",
            "",
        ] {
            check(foreign, true, false);
            check(foreign, false, true);
        }
    }

    #[test]
    fn ports_that_a_scheme_implies_may_be_left_out() {
        assert!(is_same("https://b.example", "b.example:443"));
        assert!(is_same("http://B.example:80", "b.example"));
        assert!(!is_same("http://b.example", "b.example:443"));
        assert!(!is_same("file://b.example", "b.example"));
    }

    #[test]
    fn a_body_is_json_or_does_not_say_what_it_is() {
        let tool = Source::default();
        let page = Source {
            fetch_site: Some("same-origin"),
            ..tool
        };
        let check = |given: &str, of_tool: bool, of_page: bool| {
            assert_eq!(
                check_content_type(Some(given), &tool).is_ok(),
                of_tool,
                "{given}"
            );
            assert_eq!(
                check_content_type(Some(given), &page).is_ok(),
                of_page,
                "{given}"
            );
        };
        check("application/json", true, true);
        check("Application/JSON; charset=utf-8", true, true);
        check("application/problem+json", true, true);
        check("application/x-www-form-urlencoded", true, false);
        check("text/plain", false, false);
        check("text/plain; application/json", false, false);
        check("multipart/form-data; boundary=x", false, false);
        assert!(check_content_type(None, &page).is_ok());
    }
}
