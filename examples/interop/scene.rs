//! One connection, its management pair and the queues of one scenario.

use std::fmt::{Debug, Display, Formatter};
use std::future::Future;
use std::time::Duration;

use coroner::wire::Value as Argument;
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::Fields;
use fe2o3_amqp::types::messaging::{Body, Message, Outcome, Source};
use fe2o3_amqp::types::primitives::{Symbol, Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};

use crate::common::{Management, Result};

pub const LIMIT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(300);

pub type Letter = Message<Body<Value>>;
pub type Arrived = Delivery<Body<Value>>;

/// What `interop/matrix` writes for its clients.
#[derive(Clone, serde::Deserialize)]
pub struct Setting {
    pub host: String,
    pub amqp: u16,
    pub amqps: u16,
    pub bare: u16,
    pub user: String,
    pub password: String,
    pub vhost: String,
    pub ca: String,
    pub prefix: String,
}

impl Setting {
    pub fn read(path: &str) -> Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    pub fn plain(&self) -> SaslProfile {
        SaslProfile::Plain {
            username: self.user.clone(),
            password: self.password.clone(),
        }
    }
}

/// The error of a scenario that the client cannot do.
#[derive(Debug)]
pub struct Skipped(&'static str);

impl Display for Skipped {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for Skipped {}

pub fn skip(why: &'static str) -> Result<()> {
    Err(Box::new(Skipped(why)))
}

pub struct Peer {
    pub connection: ConnectionHandle<()>,
    pub session: SessionHandle<()>,
}

impl Peer {
    pub async fn begin(mut connection: ConnectionHandle<()>) -> Result<Self> {
        let session = soon(Session::begin(&mut connection)).await??;
        Ok(Self {
            connection,
            session,
        })
    }

    pub async fn close(mut self) {
        // What was refused or killed on purpose has nothing more to say.
        let _ = soon(self.connection.close()).await;
    }
}

pub struct Scene {
    pub setting: Setting,
    /// Begins the name of every queue of the scenario.
    pub name: String,
    pub peer: Peer,
    management: Management,
    queues: Vec<String>,
    links: u32,
}

impl Scene {
    pub async fn open(setting: &Setting, scenario: &str) -> Result<Self> {
        Ok(Self {
            setting: setting.clone(),
            name: format!("{}{scenario}", setting.prefix),
            peer: connect(setting, None, setting.plain()).await?,
            management: manage(setting, None)?,
            queues: Vec::new(),
            links: 0,
        })
    }

    /// Connects anew after a restart.
    pub async fn again(&mut self) -> Result<()> {
        self.peer = connect(&self.setting, None, self.setting.plain()).await?;
        self.management = manage(&self.setting, None)?;
        Ok(())
    }

    /// Has the broker killed and started again, and connects anew.
    pub async fn restart(&mut self) -> Result<()> {
        println!("restart");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        equal("answer", answer.trim(), "restarted")?;
        self.again().await
    }

    pub async fn close(mut self) {
        for queue in std::mem::take(&mut self.queues) {
            let path = format!("/queues/{queue}");
            let _ = self.management.request("DELETE", &path, Argument::Null);
        }
        self.peer.close().await;
    }

    /// The body of an answer with this code.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Argument,
        code: &str,
    ) -> Result<Argument> {
        ask(&mut self.management, method, path, body, code)
    }

    /// A new queue; the scenario's end deletes it.
    pub fn queue(&mut self, suffix: &str, arguments: &[(&str, Argument)]) -> Result<String> {
        let name = format!("{}{suffix}", self.name);
        let path = format!("/queues/{name}");
        self.management.request("DELETE", &path, Argument::Null)?;
        self.queues.push(name.clone());
        let arguments = map(&[("arguments", map(arguments))]);
        self.ask("PUT", &path, arguments, "201")?;
        Ok(name)
    }

    pub fn count(&mut self, queue: &str) -> Result<u64> {
        let path = format!("/queues/{queue}");
        let answer = self.ask("GET", &path, Argument::Null, "200")?;
        let count = answer.get("message_count").and_then(Argument::as_u64);
        Ok(count.ok_or("no message_count")?)
    }

    /// Waits until a queue holds so many messages.
    pub async fn until_count(&mut self, queue: &str, expected: u64) -> Result<()> {
        for _ in 0..100 {
            if self.count(queue)? == expected {
                return Ok(());
            }
            tokio::time::sleep(LIMIT / 100).await;
        }
        equal("messages in the queue", self.count(queue)?, expected)
    }

    /// The client tells its links apart by name alone.
    pub fn link_name(&mut self) -> String {
        self.links += 1;
        format!("{}-{}", self.name, self.links)
    }

    pub async fn sender(&mut self, target: &str) -> Result<Sender> {
        let name = self.link_name();
        Ok(soon(Sender::attach(&mut self.peer.session, name, target)).await??)
    }

    pub async fn publish(&mut self, queue: &str, letters: Vec<Letter>) -> Result<()> {
        let mut sender = self.sender(&format!("/queues/{queue}")).await?;
        for letter in letters {
            accepted(send(&mut sender, letter).await?)?;
        }
        Ok(soon(sender.close()).await??)
    }

    /// A receiver that gets dead letters with their history as a list: `serde_amqp` 0.18 cannot
    /// decode an array of maps.
    pub async fn receiver(&mut self, queue: &str, mode: CreditMode) -> Result<Receiver> {
        let source = Source::builder().address(format!("/queues/{queue}"));
        self.attach(source.build(), mode).await
    }

    pub async fn attach(&mut self, source: Source, mode: CreditMode) -> Result<Receiver> {
        self.attach_with(source, mode, &[]).await
    }

    /// The same, with further properties of the link.
    pub async fn attach_with(
        &mut self,
        source: Source,
        mode: CreditMode,
        more: &[(&str, Value)],
    ) -> Result<Receiver> {
        let mut properties = Fields::new();
        let encoding = Value::Symbol(Symbol::from("list"));
        properties.insert(Symbol::from("x-opt-deaths-encoding"), encoding);
        for (key, value) in more {
            properties.insert(Symbol::from(*key), value.clone());
        }
        let attaching = Receiver::builder()
            .name(self.link_name())
            .source(source)
            .credit_mode(mode)
            .properties(properties)
            .attach(&mut self.peer.session);
        Ok(soon(attaching).await??)
    }

    /// Attaching to this source is refused with this condition.
    pub async fn refuses(&mut self, source: &Source, condition: &str) -> Result<()> {
        let outcome = self.attach(source.clone(), CreditMode::Auto(1)).await;
        // fe2o3-amqp 0.18.4 detaches a refused link twice: its session answers the broker's detach,
        // and the link sends one of its own. The second frees the handle that the next attach has
        // been given meanwhile, which then ends with an `IllegalState` of the client's own.
        tokio::time::sleep(SILENCE).await;
        refused(outcome, condition)
    }

    /// Takes the first message of a queue.
    pub async fn first(&mut self, queue: &str) -> Result<Letter> {
        let mut receiver = self.receiver(queue, CreditMode::Auto(10)).await?;
        let arrived = receive(&mut receiver).await?;
        receiver.accept(&arrived).await?;
        soon(receiver.close()).await??;
        Ok(arrived.into_message())
    }
}

pub async fn connect(
    setting: &Setting,
    hostname: Option<&str>,
    profile: SaslProfile,
) -> Result<Peer> {
    let url = format!("amqp://{}:{}", setting.host, setting.amqp);
    let opening = Connection::builder()
        .container_id("interop")
        .sasl_profile(profile)
        .hostname(hostname);
    Peer::begin(soon(opening.open(url.as_str())).await??).await
}

pub fn manage(setting: &Setting, hostname: Option<&str>) -> Result<Management> {
    Management::connect(&format!("{}:{}", setting.host, setting.amqp), hostname)
}

pub fn ask(
    management: &mut Management,
    method: &str,
    path: &str,
    body: Argument,
    code: &str,
) -> Result<Argument> {
    let (answered, body) = management.request(method, path, body)?;
    if answered == code {
        return Ok(body);
    }
    Err(format!("{method} {path}: {answered} {body:?} instead of {code}").into())
}

pub fn map(entries: &[(&str, Argument)]) -> Argument {
    let entries = entries.iter();
    Argument::Map(
        entries
            .map(|(key, value)| (Argument::string(*key), value.clone()))
            .collect(),
    )
}

/// The arguments of a queue that dead-letters to another.
pub fn to(queue: &str) -> [(&'static str, Argument); 2] {
    [
        ("x-dead-letter-exchange", Argument::string("")),
        ("x-dead-letter-routing-key", Argument::string(queue)),
    ]
}

pub fn letter(value: impl Into<Value>) -> Letter {
    Message::builder()
        .value(value.into())
        .build()
        .map_body(Body::Value)
}

pub fn text(value: &str) -> Letter {
    letter(value.to_owned())
}

pub fn value(letter: &Letter) -> Result<Value> {
    match letter.body.try_as_value() {
        Ok(value) => Ok(value.clone()),
        Err(other) => Err(format!("no value but {other:?}").into()),
    }
}

pub async fn soon<F: Future>(future: F) -> Result<F::Output> {
    let outcome = tokio::time::timeout(LIMIT, future).await;
    Ok(outcome.map_err(|_| format!("nothing came for {LIMIT:?}"))?)
}

pub async fn send(sender: &mut Sender, letter: Letter) -> Result<Outcome> {
    Ok(soon(sender.send(letter)).await??)
}

pub fn accepted(outcome: Outcome) -> Result<()> {
    Ok(outcome
        .accepted_or_else(|other| format!("not accepted: {other:?}"))
        .map(drop)?)
}

pub async fn receive(receiver: &mut Receiver) -> Result<Arrived> {
    Ok(soon(receiver.recv()).await??)
}

/// Fails if a message comes for the credit there is.
pub async fn nothing(receiver: &mut Receiver) -> Result<()> {
    match tokio::time::timeout(SILENCE, receiver.recv::<Body<Value>>()).await {
        Err(_) => Ok(()),
        Ok(other) => Err(format!("unexpected {other:?}").into()),
    }
}

/// The client wraps the broker's error differently at each place: what it shows names the
/// condition in any.
pub fn refused<T, E: Debug>(outcome: std::result::Result<T, E>, condition: &str) -> Result<()> {
    match outcome {
        Err(error) if format!("{error:?}").contains(condition) => Ok(()),
        Err(error) => Err(format!("{error:?} instead of {condition}").into()),
        Ok(_) => Err(format!("no {condition}").into()),
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "callers make both values on the spot"
)]
pub fn equal<T: PartialEq + Debug>(what: &str, observed: T, expected: T) -> Result<()> {
    if observed == expected {
        return Ok(());
    }
    Err(format!("{what}: {observed:?} instead of {expected:?}").into())
}
