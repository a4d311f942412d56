//! Messages of groups, from their properties to the consumers. [AMQP 3.2.4 group-id]

use super::support::{Scene, message, section};
use crate::wire::performative::Value;

/// A message of a group; its body is the group and a number.
fn grouped(group: &str, number: u32) -> Vec<u8> {
    let mut properties = vec![Value::Null; 10];
    properties.extend([Value::string(group), Value::Uint(number)]);
    let mut encoded = section(0x73, &Value::List(properties));
    encoded.extend(message(format!("{group}{number}").as_bytes()));
    encoded
}

fn got(scene: &mut Scene, client: usize) -> Vec<String> {
    let deliveries = scene.deliveries(client).into_iter();
    let last_two = deliveries.map(|(_, _, payload)| payload[payload.len() - 2..].to_vec());
    last_two
        .map(|body| String::from_utf8(body).unwrap())
        .collect()
}

// [AMQP 3.2.4]
#[test]
fn groups_stay_with_the_connection_that_got_their_first_message_until_its_link_is_detached() {
    let mut scene = Scene::new();
    let (one, two) = (scene.client(), scene.client());
    scene.queue("q", &[]);
    let link = scene.consumer(one, "q", 100);
    let publisher = scene.publisher(two, Some("/queues/q"));
    scene.publish(two, publisher, &grouped("a", 1));
    scene.consumer(two, "q", 100);
    for number in 2..=4 {
        scene.publish(two, publisher, &grouped("a", number));
        scene.publish(two, publisher, &grouped("b", number));
    }
    let (of_one, of_two) = (got(&mut scene, one), got(&mut scene, two));
    let of_group = |got: &[String], group| got.iter().filter(|it| it.starts_with(group)).count();
    assert_eq!((of_group(&of_one, 'a'), of_group(&of_two, 'a')), (4, 0));
    let b = (of_group(&of_one, 'b'), of_group(&of_two, 'b'));
    assert!(b == (3, 0) || b == (0, 3), "{b:?}");
    scene.clients[one].engine.detach(link, true, None);
    scene.drive();
    let mut requeued = got(&mut scene, two);
    requeued.retain(|body| body.starts_with('a'));
    assert_eq!(requeued, ["a1", "a2", "a3", "a4"]);
}
