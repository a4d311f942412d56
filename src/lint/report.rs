//! Findings as they are told: silenced ones apart, as JSON, text, or SARIF.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::finding::{Finding, Rule, Severity, verb};
use super::topology::{NotRead, PARAMETER, Topology};
use super::{Target, lint};
use crate::base::Name;
use crate::base::order::sort_by;
use crate::deaths::Reason;
use crate::management::Refusal;

/// Findings that nobody wants to hear of again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Silence {
    /// The number of the rule.
    pub rule: String,
    /// The name of the object; none: all of them.
    pub object: Option<String>,
    /// Why that is all right.
    pub why: String,
}

/// The findings of all vhosts.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The findings, by vhost.
    pub findings: Vec<(Name, Finding)>,
    /// Findings that the global parameter `lint` silences.
    pub silenced: usize,
    /// Findings beyond the worst 10,000 of each vhost.
    pub left_out: usize,
    /// Items of the definitions that could not be looked at, and parts of vhosts that it takes too long to
    /// look at.
    pub not_read: Vec<NotRead>,
}

impl Silence {
    /// What the global parameter `lint` of a definitions object silences.
    ///
    /// 400: it is not `{"ignore": [{"rule": ..., "object": ..., "why": ...}]}`.
    pub fn of_definitions(json: &Json) -> Result<Vec<Self>, Refusal> {
        Self::in_definitions(json).map(Option::unwrap_or_default)
    }

    /// The same; none: the definitions do not set that parameter.
    ///
    /// 400: as [`Silence::of_definitions`].
    pub fn in_definitions(json: &Json) -> Result<Option<Vec<Self>>, Refusal> {
        let parameters = json.get("global_parameters").and_then(Json::as_array);
        let mut parameters = parameters.into_iter().flatten();
        let named = parameters.find(|one| one.get("name") == Some(&Json::from(PARAMETER)));
        let value = named.and_then(|parameter| parameter.get("value"));
        value.map(Self::read).transpose()
    }

    /// Reads the value of the global parameter `lint`.
    ///
    /// 400: as [`Silence::of_definitions`].
    pub fn read(value: &Json) -> Result<Vec<Self>, Refusal> {
        let wrong = |why: &str| {
            let shape = r#"{"ignore": [{"rule": "DL009", "object": "NAME", "why": "..."}]}"#;
            Refusal::bad_request(format!("the global parameter 'lint': {why}; it is {shape}"))
        };
        let ignored = value.get("ignore").and_then(Json::as_array);
        let ignored = ignored.ok_or_else(|| wrong("the field 'ignore' must be an array"))?;
        let silences = ignored.iter().map(|one| {
            let known = ["rule", "object", "why"];
            let fields = one.as_object().into_iter().flatten();
            let mut unknown = fields.filter(|(field, _)| !known.contains(&field.as_str()));
            if let Some((field, _)) = unknown.next() {
                return Err(wrong(&format!("there is no field '{field}'")));
            }
            let text = |field: &str| match one.get(field) {
                None | Some(Json::Null) => Ok(None),
                Some(Json::String(text)) => Ok(Some(text.clone())),
                Some(_) => Err(wrong(&format!("the field '{field}' must be a text"))),
            };
            let rule = text("rule")?.ok_or_else(|| wrong("the field 'rule' is missing"))?;
            if !Rule::ALL.iter().any(|known| known.as_str() == rule) {
                return Err(wrong(&format!("there is no rule '{rule}'")));
            }
            Ok(Self {
                rule,
                object: text("object")?,
                why: text("why")?.unwrap_or_default(),
            })
        });
        silences.collect()
    }

    pub(super) fn covers(&self, finding: &Finding) -> bool {
        let object = self.object.as_deref();
        self.rule == finding.rule.as_str()
            && object.is_none_or(|object| object == &**finding.subject.name())
    }
}

impl Report {
    /// Looks at all vhosts of a topology.
    pub fn of(topology: &mut Topology, target: Target) -> Self {
        let mut report = Self {
            not_read: std::mem::take(&mut topology.not_read),
            ..Self::default()
        };
        for (vhost, sandbox) in &mut topology.vhosts {
            let found = lint(sandbox, target, &topology.silences);
            report.silenced += found.silenced;
            report.left_out += found.left_out;
            report.not_read.extend(found.not_looked_at);
            let its = found.findings.into_iter();
            report
                .findings
                .extend(its.map(|finding| (vhost.clone(), finding)));
        }
        report.sort();
        report
    }

    /// Adds the findings of other vhosts.
    pub fn join(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.sort();
        self.silenced += other.silenced;
        self.left_out += other.left_out;
        self.not_read.extend(other.not_read);
    }

    /// Brings the worst findings to the front.
    fn sort(&mut self) {
        let findings = &mut self.findings;
        sort_by(findings, |(_, a), (_, b)| a.severity.cmp(&b.severity));
    }

    /// How many findings are as bad as this.
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|(_, finding)| finding.severity == severity)
            .count()
    }

    /// The findings that are as bad as this, or worse.
    pub fn as_bad_as(&self, severity: Severity) -> impl Iterator<Item = &(Name, Finding)> {
        let findings = self.findings.iter();
        findings.filter(move |(_, finding)| finding.severity <= severity)
    }

    /// The answer of the API.
    pub fn to_json(&self) -> Json {
        let findings = self.findings.iter().map(|(vhost, finding)| {
            let witness = finding.witness.as_ref().map(|witness| {
                let deaths = witness.deaths.iter();
                let deaths = deaths
                    .map(|(queue, reason)| json!({"queue": &**queue, "reason": reason.as_str()}));
                json!({
                    "exchange": &*witness.exchange,
                    "routing_key": &*witness.key,
                    "deaths": deaths.collect::<Vec<_>>(),
                    "outcome": witness.outcome,
                })
            });
            json!({
                "rule": finding.rule.as_str(),
                "severity": finding.severity.as_str(),
                "vhost": &**vhost,
                "object": {"kind": finding.subject.kind(), "name": &**finding.subject.name()},
                "says": finding.says,
                "because": finding.because,
                "witness": witness,
                "fix": finding.fix,
            })
        });
        let findings: Vec<Json> = findings.collect();
        let not_read = self.not_read.iter();
        let not_read = not_read.map(|left| json!({"item": left.item, "why": left.why}));
        json!({
            "findings": findings,
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "infos": self.count(Severity::Info),
            "silenced": self.silenced,
            "left_out": self.left_out,
            "not_read": not_read.collect::<Vec<_>>(),
        })
    }
}

/// What was not looked at, by an answer of [`Report::to_json`], a line each.
pub fn not_looked_at(report: &Json) -> impl Iterator<Item = String> {
    let not_read = report.get("not_read").and_then(Json::as_array);
    let told = not_read.into_iter().flatten();
    told.map(|left| {
        let (item, why) = (word(left, "item"), word(left, "why"));
        format!("not looked at: {item}: {why}")
    })
}

/// The lines of an answer of [`Report::to_json`], for people.
pub fn text(report: &Json) -> String {
    let mut text = String::new();
    let list = |field: &str| {
        report
            .get(field)
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
    };
    for left in not_looked_at(report) {
        let _ = writeln!(text, "{left}");
    }
    for finding in list("findings") {
        let object = finding.get("object").unwrap_or(&Json::Null);
        let kind = word(object, "kind").replace('_', " ");
        let _ = writeln!(
            text,
            "{:<7} {} {kind} {} (vhost {}): {}",
            word(finding, "severity"),
            word(finding, "rule"),
            word(object, "name"),
            word(finding, "vhost"),
            word(finding, "says"),
        );
        if let Some(because) = finding.get("because").and_then(Json::as_str) {
            let _ = writeln!(text, "        {because}");
        }
        if let Some(witness) = finding.get("witness").filter(|witness| witness.is_object()) {
            let _ = writeln!(text, "        witness: {}", witness_words(witness));
        }
        if let Some(fix) = finding.get("fix").and_then(Json::as_str) {
            let _ = writeln!(text, "        fix: {fix}");
        }
    }
    let count = |field: &str| report.get(field).and_then(Json::as_u64).unwrap_or(0);
    let _ = writeln!(
        text,
        "{} ({}, {}, {}), {} silenced",
        counted(list("findings").count() as u64, "finding"),
        counted(count("errors"), "error"),
        counted(count("warnings"), "warning"),
        counted(count("infos"), "info"),
        count("silenced"),
    );
    if count("left_out") > 0 {
        let _ = writeln!(
            text,
            "the worst are told; {} more are left out",
            count("left_out")
        );
    }
    text
}

/// `1 finding`, `2 findings`.
pub fn counted(number: u64, word: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {word}{plural}")
}

fn witness_words(witness: &Json) -> String {
    let mut words = match word(witness, "exchange") {
        "" => format!("published to queue {}", word(witness, "routing_key")),
        exchange => format!("published {exchange}/{}", word(witness, "routing_key")),
    };
    let deaths = witness.get("deaths").and_then(Json::as_array);
    for death in deaths.into_iter().flatten() {
        let reason = word(death, "reason");
        let known = Reason::ALL.into_iter().find(|one| one.as_str() == reason);
        let died = known.map_or(reason, |known| verb(known));
        let _ = write!(words, ", {died} in {}", word(death, "queue"));
    }
    let outcome = witness.get("outcome").and_then(Json::as_str);
    let _ = write!(words, " -> {}", outcome.unwrap_or("not tried"));
    words
}

fn word<'a>(json: &'a Json, field: &str) -> &'a str {
    json.get(field).and_then(Json::as_str).unwrap_or_default()
}

/// An answer of [`Report::to_json`] as SARIF 2.1.0, which code hosts show beside the file.
pub fn sarif(report: &Json, file: &str, version: &str) -> Json {
    let rules = Rule::ALL.iter().map(|rule| {
        json!({
            "id": rule.as_str(),
            "shortDescription": {"text": rule.meaning()},
            "defaultConfiguration": {"level": level(rule.severity().as_str())},
        })
    });
    let findings = report.get("findings").and_then(Json::as_array);
    let results = findings.into_iter().flatten().map(|finding| {
        let object = finding.get("object").unwrap_or(&Json::Null);
        let (kind, name) = (word(object, "kind"), word(object, "name"));
        let mut message = format!("{kind} {name}: {}", word(finding, "says"));
        let more = |field: &str| finding.get(field).and_then(Json::as_str).map(str::to_owned);
        let witness = finding.get("witness").filter(|witness| witness.is_object());
        let parts = [
            ("because", more("because")),
            ("witness", witness.map(witness_words)),
            ("fix", more("fix")),
        ];
        for (field, more) in parts {
            if let Some(more) = more {
                let _ = write!(message, ". {field}: {more}");
            }
        }
        json!({
            "ruleId": word(finding, "rule"),
            "level": level(word(finding, "severity")),
            "message": {"text": message},
            "locations": [{
                "physicalLocation": {"artifactLocation": {"uri": file}, "region": {"startLine": 1}},
                "logicalLocations": [{"kind": "object", "name": name,
                    "fullyQualifiedName": format!("{}/{kind}/{name}", word(finding, "vhost"))}],
            }],
        })
    });
    json!({
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "coroner lint", "version": version, "rules": rules.collect::<Vec<_>>()}},
            "results": results.collect::<Vec<_>>(),
            "invocations": [{"executionSuccessful": true, "toolExecutionNotifications": left_out(report)}],
        }],
    })
}

/// What was not looked at, and how many findings are not told, as notifications of SARIF.
fn left_out(report: &Json) -> Vec<Json> {
    let told = not_looked_at(report);
    let left = report.get("left_out").and_then(Json::as_u64).unwrap_or(0);
    let more = (left > 0).then(|| format!("the worst are told; {left} more are left out"));
    let told = told.chain(more);
    told.map(|text| json!({"level": "warning", "message": {"text": text}}))
        .collect()
}

/// SARIF's word for a severity.
fn level(severity: &str) -> &'static str {
    match severity {
        "error" => "error",
        "warning" => "warning",
        _ => "note",
    }
}
