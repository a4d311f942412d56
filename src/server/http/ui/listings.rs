//! The first page, and the list of queues.

use std::sync::Arc;

use super::visit::Visit;
use crate::base::limits::{PAGE_GROUPED_MESSAGES_MAX, PAGE_GROUPED_QUEUES_MAX, PAGE_QUEUES_MAX};
use crate::base::order::sort_by;
use crate::broker::names::QUARANTINE;
use crate::lint::{Rule, Severity};
use crate::management::http::Failure;
use crate::page::answer::FromAnswer;
use crate::page::deaths::{Deaths, GroupIn, Need, Overview};
use crate::page::frame::Place;
use crate::page::message::Death;
use crate::page::queue::{Groups, Messages};
use crate::page::queues::{Paged, QueueRow, Queues, Search};
use crate::page::redrive::Job;
use crate::page::show::{Count, Text, When, encoded};
use crate::server::Vhost;
use crate::server::admin::Admin;
use crate::server::http::aside::aside;
use crate::server::lint_counts::Counts;

/// The fields of queues that pages show.
const COLUMNS: &str = "name,vhost,type,durable,messages,messages_ready,messages_unacknowledged,\
                       messages_delayed,messages_dead_pending,consumers,dead_letters,\
                       dead_letter_to,message_stats.dead_details";
/// Redrives that the first page looks at, the most that one answer has.
const REDRIVES: &str = "page=1&page_size=500";

/// `/ui/queues`.
pub(super) async fn queues(visit: &Visit<'_>) -> Result<Queues, Failure> {
    let search = search(visit, "/ui/queues")?;
    let page = visit.query.get("page").unwrap_or("1");
    let path = match search.vhost.raw() {
        "" => "/api/queues".to_owned(),
        vhost => format!("/api/queues/{}", encoded(vhost)),
    };
    let query = format!(
        "page={}&page_size={PAGE_QUEUES_MAX}&name={}&sort={}&sort_reverse={}&columns={COLUMNS}",
        encoded(page),
        search.name.query(),
        encoded(&search.sort),
        search.is_descending,
    );
    let mut queues = Paged::<QueueRow>::of(visit.get(&path, &query).await?);
    mark(visit, &mut queues.items).await?;
    Ok(Queues {
        frame: visit.frame("Queues", Place::Queues),
        queues,
        search,
    })
}

/// What a list is searched for, and how it is sorted.
pub(super) fn search(visit: &Visit<'_>, path: &'static str) -> Result<Search, Failure> {
    let sort = visit.query.get("sort").filter(|sort| !sort.is_empty());
    Ok(Search {
        path,
        vhost: visit.text("vhost"),
        vhosts: visit.vhosts(),
        name: visit.text("search"),
        sort: sort.unwrap_or("name").to_owned(),
        is_descending: visit.query.flag("sort_reverse")?,
    })
}

/// `/ui/`.
pub(super) async fn deaths(visit: &Visit<'_>) -> Result<Deaths, Failure> {
    let overview = Overview::of(visit.get("/api/overview", "").await?);
    let query =
        format!("page=1&page_size=500&sort=dead_letters.taken&sort_reverse=true&columns={COLUMNS}");
    let taking = Paged::<QueueRow>::of(visit.get("/api/queues", &query).await?);
    let jobs = Paged::<Job>::of(visit.get("/api/redrives", REDRIVES).await?);
    let mut queues = taking.items;
    queues.retain(|queue| {
        let is_taking = !queue.dead_letters.taken.is_zero() || queue.name.raw() == QUARANTINE;
        is_taking && !queue.messages.is_zero()
    });
    let (groups, is_partial) = groups(visit, &queues).await?;
    let of = |quarantine: bool| {
        let meant = queues
            .iter()
            .filter(|queue| (queue.name.raw() == QUARANTINE) == quarantine);
        Count(meant.map(|queue| queue.messages.0).sum())
    };
    let oldest = groups.iter().filter_map(|found| found.group.oldest.0).min();
    let (dead_letters, quarantined) = (of(false), of(true));
    let frame = visit.frame("Deaths", Place::Deaths);
    let mut needs = needs(frame.now, &queues, &groups, &jobs.items);
    needs.extend(findings(visit).await?);
    queues.truncate(PAGE_QUEUES_MAX);
    Ok(Deaths {
        frame,
        deaths: overview.message_stats.dead,
        rate: overview.message_stats.dead_details.rate.a_minute(),
        dead_letters,
        quarantined,
        oldest: When(oldest),
        needs,
        queues,
        groups,
        is_partial,
    })
}

/// The groups in the queues that took most dead letters, each with one of its messages; and whether
/// there are others.
async fn groups(visit: &Visit<'_>, queues: &[QueueRow]) -> Result<(Vec<GroupIn>, bool), Failure> {
    /// Groups of one queue that are shown.
    const OF_QUEUE_MAX: usize = 3;
    let (mut found, mut is_partial) = (Vec::new(), queues.len() > PAGE_GROUPED_QUEUES_MAX);
    for queue in queues.iter().take(PAGE_GROUPED_QUEUES_MAX) {
        let (vhost, name) = (queue.vhost.raw(), queue.name.raw());
        if !visit.may(vhost, crate::access::Right::Read, name) {
            continue;
        }
        if queue.messages_ready.0 > PAGE_GROUPED_MESSAGES_MAX {
            is_partial = true;
            continue;
        }
        let path = format!("/api/queues/{}/{}", encoded(vhost), encoded(name));
        let groups = match visit.get(&format!("{path}/groups"), "").await {
            // It may be gone by now, or be exclusive to a connection.
            Err(failure) if failure.status < 500 => continue,
            groups => Groups::of(groups?),
        };
        is_partial |= groups.groups.len() > OF_QUEUE_MAX;
        for group in groups.groups.into_iter().take(OF_QUEUE_MAX) {
            let death = match group.sample.first() {
                Some(position) => latest_death(visit, &path, position).await?,
                None => None,
            };
            let queue = queue.clone();
            found.push(GroupIn {
                queue,
                group,
                death,
            });
        }
    }
    sort_by(&mut found, |a, b| b.group.newest.cmp(&a.group.newest));
    Ok((found, is_partial))
}

/// The latest death of the message at a position.
async fn latest_death(
    visit: &Visit<'_>,
    queue: &str,
    position: &Text,
) -> Result<Option<Death>, Failure> {
    let query = format!("position={}&count=1&truncate=0", position.query());
    let seen = visit.get(&format!("{queue}/messages"), &query).await?;
    let seen = Messages::of(seen).messages.into_iter().next();
    Ok(seen.and_then(|message| message.amqp.deaths.into_iter().next()))
}

/// What needs somebody, worst first.
fn needs(now: i64, queues: &[QueueRow], groups: &[GroupIn], jobs: &[Job]) -> Vec<Need> {
    let mut needs = Vec::new();
    for job in jobs {
        let class = match job.state.raw() {
            "stopped" | "failed" => "bad",
            "paused" | "waiting" => "so-so",
            _ => continue,
        };
        let what = format!(
            "{}: {} ({})",
            job.id.raw(),
            job.state.raw(),
            job.cause.raw()
        );
        needs.push(Need {
            class,
            kind: "Redrive",
            what: Text::new(what),
            link: Some(format!("/ui/redrive?{}", job.query())),
        });
    }
    for queue in queues {
        let link = Some(format!("/ui/queue?{}", queue.query()));
        if queue.name.raw() == QUARANTINE {
            let what = format!("{} messages in vhost {}", queue.messages, queue.vhost.raw());
            needs.push(Need {
                class: "bad",
                kind: "Quarantine",
                what: Text::new(what),
                link,
            });
        } else if !queue.messages_dead_pending.is_zero() {
            let (name, count) = (queue.name.raw(), queue.messages_dead_pending);
            needs.push(Need {
                class: "bad",
                kind: "Full target",
                what: Text::new(format!("{count} dead letters of {name} wait for room")),
                link,
            });
        }
    }
    for found in groups.iter().filter(|found| found.grows(now)) {
        let (count, label) = (found.group.count, found.group.label.raw());
        let what = match &found.death {
            Some(death) => told(count, death),
            None => format!("{count} messages: {label}"),
        };
        needs.push(Need {
            class: "so-so",
            kind: "Growing group",
            what: Text::new(what),
            link: Some(found.link()),
        });
    }
    sort_by(&mut needs, |a, b| {
        (a.class != "bad").cmp(&(b.class != "bad"))
    });
    needs
}

/// What the linter found when it last looked at each vhost, which are all.
async fn counted(visit: &Visit<'_>) -> Result<(Vec<Arc<Vhost>>, Vec<Counts>), Failure> {
    let shared = Arc::clone(visit.shared);
    let vhosts = shared.all_vhosts();
    aside(move || {
        let counts = Admin::new(shared).lint_counts(&vhosts);
        Ok((vhosts, counts))
    })
    .await
}

/// Marks queues with the rules that they break, as far as the linter looked.
async fn mark(visit: &Visit<'_>, queues: &mut [QueueRow]) -> Result<(), Failure> {
    let (vhosts, counts) = counted(visit).await?;
    for queue in queues {
        let mut pairs = vhosts.iter().zip(&counts);
        let of_vhost = pairs.find(|(vhost, _)| **vhost.name() == *queue.vhost.raw());
        let rules = of_vhost.and_then(|(_, counts)| counts.marks.by_queue.get(queue.name.raw()));
        let rules = rules.into_iter().flatten();
        queue.rules = rules.map(|rule| Text::new(*rule)).collect();
    }
    Ok(())
}

/// What the linter found in each vhost that the user may enter, when it last looked there: a home page that
/// comes anew each few seconds does not look at 20,000 queues each time.
async fn findings(visit: &Visit<'_>) -> Result<Vec<Need>, Failure> {
    let (vhosts, counts) = counted(visit).await?;
    let visible = visit.vhosts();
    let found = vhosts.iter().zip(counts).filter_map(|(vhost, counts)| {
        let name = visible.iter().find(|name| *name.raw() == **vhost.name())?;
        finding(name, &counts.by_rule)
    });
    Ok(found.collect())
}

/// The findings of a vhost as a need; none: there is nothing that anybody has to look at.
fn finding(vhost: &Text, counts: &[(&'static str, u64)]) -> Option<Need> {
    let needs_somebody = |rule: &str| {
        let known = Rule::ALL.into_iter().find(|known| known.as_str() == rule);
        known.is_some_and(|known| known.severity() != Severity::Info)
    };
    let meant = counts
        .iter()
        .filter(|(rule, count)| *count > 0 && needs_somebody(rule));
    let rules: Vec<String> = meant
        .map(|(rule, count)| format!("{rule} ({count})"))
        .collect();
    (!rules.is_empty()).then(|| Need {
        class: "so-so",
        kind: "Lint",
        what: Text::new(format!("in vhost {}: {}", vhost.raw(), rules.join(", "))),
        link: Some(format!("/ui/graph?vhost={}", vhost.query())),
    })
}

/// A group in a sentence, by its latest death.
fn told(count: Count, death: &Death) -> String {
    let noun = if count.0 == 1 { "message" } else { "messages" };
    let condition = death.error.as_ref().map(|error| error.condition.raw());
    let why = condition.filter(|condition| !condition.is_empty());
    let why = why.unwrap_or_else(|| death.reason.raw());
    let by = death.by.as_ref().map(|by| by.container.raw());
    let by = by.filter(|by| !by.is_empty());
    let by = by.map_or_else(String::new, |by| format!(", by {by}"));
    format!("{count} {noun} died in {}: {why}{by}", death.queue.raw())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_group_is_told_as_what_died_where_of_what_by_whom() {
        let death = json!({
            "queue": "orders", "reason": "rejected",
            "error": { "condition": "app:schema" }, "by": { "container": "billing-7f9c" },
        });
        let death = Death::of(death);
        let said = told(Count(3), &death);
        assert_eq!(
            said,
            "3 messages died in orders: app:schema, by billing-7f9c"
        );
        let expired = Death::of(json!({"queue": "q", "reason": "expired"}));
        assert_eq!(told(Count(1), &expired), "1 message died in q: expired");
    }

    #[test]
    fn findings_are_told_unless_they_are_only_worth_knowing() {
        let vhost = Text::new("a/b");
        assert!(finding(&vhost, &[("DL001", 0), ("DL009", 3)]).is_none());
        let need = finding(&vhost, &[("DL001", 2), ("DL009", 3), ("DL008", 1)]).unwrap();
        assert_eq!(need.what.raw(), "in vhost a/b: DL001 (2), DL008 (1)");
        assert_eq!(need.link.as_deref(), Some("/ui/graph?vhost=a%2Fb"));
    }

    #[test]
    fn what_is_worst_comes_first() {
        let queue = |name: &str, pending: u64| {
            let queue = json!({"name": name, "vhost": "/", "messages": 1, "messages_dead_pending": pending});
            QueueRow::of(queue)
        };
        let job = |state: &str| Job::of(json!({"id": state, "state": state}));
        let queues = [queue("dlq", 0), queue("work", 4), queue(QUARANTINE, 0)];
        let jobs = [job("paused"), job("completed"), job("stopped")];
        let needs = needs(0, &queues, &[], &jobs);
        let kinds: Vec<&str> = needs.iter().map(|need| need.kind).collect();
        assert_eq!(kinds, ["Redrive", "Full target", "Quarantine", "Redrive"]);
        assert_eq!(needs[0].what.raw(), "stopped: stopped ()");
    }
}
