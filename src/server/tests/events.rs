//! Events of several vhosts in the order of their numbers.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::base::limits::EVENT_LOOK_MS;
use crate::base::{Lsn, Name};
use crate::config::Settings;
use crate::node::events::tests::add;
use crate::server::Broker;
use crate::server::events::{EventReader, Start};

/// Else a stream that is cut in between goes on behind the later one, and never tells the first.
#[tokio::test]
async fn an_event_whose_vhost_is_held_for_long_is_told_before_later_ones_of_others() {
    const HELD: Duration = Duration::from_millis(6 * EVENT_LOOK_MS);
    let settings = Settings {
        amqp: Vec::new(),
        ..Settings::default()
    };
    let broker = Broker::builder()
        .settings(settings)
        .vhost("other")
        .start()
        .await
        .unwrap();
    let admin = broker.admin();
    let shared = Arc::clone(admin.shared());
    let names = [Name::from("/"), Name::from("other")];
    let vhosts = names
        .clone()
        .map(|name| shared.node.vhosts.get(&name).unwrap());
    let mut reader = EventReader::new(Arc::clone(&shared));
    reader.read_vhosts(&names, Start::Now);

    let (say, held) = mpsc::channel();
    let (slow, events) = (Arc::clone(&vhosts[0]), Arc::clone(&shared));
    let holder = std::thread::spawn(move || {
        let held = slow.look(|_| {
            let mut first = add(&events.node.events, 1, 1);
            say.send(()).unwrap();
            std::thread::sleep(HELD);
            slow.events().stage(&mut first, Lsn(0));
        });
        held.unwrap();
    });
    held.recv().unwrap();
    let mut second = add(&shared.node.events, 1, 1);
    vhosts[1].events().stage(&mut second, Lsn(0));
    vhosts[1].events().settle();

    let horizon = shared.node.events.next();
    std::thread::sleep(Duration::from_millis(EVENT_LOOK_MS));
    reader.look_again(horizon);
    let told = reader.read().events;
    let told: Vec<_> = told
        .iter()
        .map(|(vhost, event)| (&**vhost, event.number))
        .collect();
    assert_eq!(told, [("/", horizon - 2), ("other", horizon - 1)]);
    holder.join().unwrap();
    broker.stop().await;
}
