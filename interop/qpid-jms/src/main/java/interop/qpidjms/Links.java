package interop.qpidjms;

import static interop.Check.TIMEOUT_MS;
import static interop.Check.equal;
import static interop.Check.that;
import static interop.Check.until;

import interop.History;
import interop.Runner.Scenario;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Outcomes, credit, drain, termini, selectors. */
final class Links {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("outcomes", Links::outcomes);
        SCENARIOS.put("refusals", Links::refusals);
        SCENARIOS.put("credit", Links::credit);
        SCENARIOS.put("drain", Links::drain);
        SCENARIOS.put("presettled", Links::presettled);
        SCENARIOS.put("anonymous-terminus", Links::anonymousTerminus);
        SCENARIOS.put("attach-refused", Links::attachRefused);
        SCENARIOS.put("deleted", Links::deleted);
        SCENARIOS.put("dynamic", Links::dynamic);
        SCENARIOS.put("selector", Links::selector);
        SCENARIOS.put("browse", Links::browse);
        SCENARIOS.put("transactions", Links::transactions);
    }

    private static Message comes(MessageConsumer consumer, String text, int count) throws Exception {
        var message = Scene.receive(consumer);
        equal("text", ((TextMessage) message).getText(), text);
        equal("JMSXDeliveryCount", message.getIntProperty("JMSXDeliveryCount"), count);
        return message;
    }

    /** JMS has no annotations for `modified`, and no error for `rejected`. */
    private static void outcomes(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = scene.queue("", History.to(dead));
        scene.publish(queue, "accepted", "released", "modified", "rejected", "undeliverable");
        var consumer = scene.consumer(queue);
        Scene.settle(comes(consumer, "accepted", 1), Scene.ACCEPTED);
        Scene.settle(comes(consumer, "released", 1), Scene.RELEASED);
        Scene.settle(comes(consumer, "released", 1), Scene.ACCEPTED);
        Scene.settle(comes(consumer, "modified", 1), Scene.MODIFIED_FAILED);
        var again = comes(consumer, "modified", 2);
        equal("redelivered", again.getJMSRedelivered(), true);
        Scene.settle(again, Scene.ACCEPTED);
        Scene.settle(comes(consumer, "rejected", 1), Scene.REJECTED);
        Scene.settle(comes(consumer, "undeliverable", 1), Scene.MODIFIED_FAILED_UNDELIVERABLE);
        var reader = scene.consumer(dead);
        Scene.textIs("rejected", reader);
        Scene.textIs("undeliverable", reader);
        equal("left in the queue", scene.count(queue), 0L);
        recovers(scene, scene.queue("-recover"));
    }

    /** `recover` delivers again what was not acknowledged. */
    private static void recovers(Scene scene, String queue) throws Exception {
        scene.publish(queue, "again");
        var session = scene.connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        var consumer = session.createConsumer(scene.destination(queue));
        comes(consumer, "again", 1);
        session.recover();
        comes(consumer, "again", 2).acknowledge();
        session.close();
        equal("left in the queue", scene.count(queue), 0L);
    }

    private static void refusals(Scene scene) throws Exception {
        String exchange = scene.prefix + "-exchange";
        scene.management.ask("PUT", "/exchanges/" + exchange, Map.of("type", "direct"), 204);
        var nowhere = scene.session.createProducer(
                scene.session.createQueue("/exchanges/" + exchange + "/nowhere"));
        var message = scene.session.createTextMessage("x");
        Scene.refused("released by receiver", () -> send(nowhere, message));
        scene.management.ask("DELETE", "/exchanges/" + exchange, null, 204);
        String queue = scene.queue("", Map.of("x-max-length", 1, "x-overflow", "reject-publish"));
        scene.publish(queue, "x");
        var full = scene.session.createProducer(scene.destination(queue));
        Scene.refused("amqp:resource-limit-exceeded", () -> send(full, message));
    }

    private static Object send(MessageProducer producer, Message message) throws Exception {
        producer.send(message);
        return null;
    }

    /** A consumer gets its credit's worth of messages; another one the others. */
    private static void credit(Scene scene) throws Exception {
        String queue = scene.queue("");
        scene.publish(queue, "0", "1", "2", "3", "4");
        scene.consumer(queue); // its session has no prefetch: it takes nothing
        var two = Scene.session(scene.connect("?jms.prefetchPolicy.all=2"));
        var holding = two.createConsumer(scene.destination(queue));
        Thread.sleep(300); // its two messages have come
        var other = scene.consumer(queue);
        for (String text : List.of("2", "3", "4")) {
            Scene.textIs(text, other);
        }
        Scene.nothing(other);
        Scene.textIs("0", holding);
        Scene.textIs("1", holding);
    }

    /** A receive that does not wait drains the credit of 10. */
    private static void drain(Scene scene) throws Exception {
        String queue = scene.queue("");
        scene.publish(queue, "0", "1", "2");
        var ten = Scene.session(scene.connect("?jms.prefetchPolicy.all=10"));
        var consumer = ten.createConsumer(scene.destination(queue));
        for (String text : List.of("0", "1", "2")) {
            Scene.textIs(text, consumer);
        }
        long begun = System.nanoTime();
        equal("a fourth message", consumer.receiveNoWait(), null);
        that("drained at once", System.nanoTime() - begun < TIMEOUT_MS * 1_000_000);
        scene.publish(queue, "late");
        Scene.textIs("late", consumer);
    }

    private static void presettled(Scene scene) throws Exception {
        String queue = scene.queue("");
        var session = Scene.session(scene.connect("?jms.presettlePolicy.presettleAll=true"));
        var producer = session.createProducer(scene.destination(queue));
        producer.send(session.createTextMessage("settled"));
        until("it does not arrive", () -> scene.count(queue) == 1);
        var consumer = session.createConsumer(scene.destination(queue));
        equal("text", ((TextMessage) Scene.receive(consumer)).getText(), "settled");
        consumer.close();
        equal("left in the queue", scene.count(queue), 0L);
    }

    /** JMS sends nothing without `to`, so that refusal is not seen. */
    private static void anonymousTerminus(Scene scene) throws Exception {
        var queues = List.of(scene.queue("-one"), scene.queue("-two"), scene.queue("-bound"));
        String exchange = "/exchanges/" + scene.prefix + "-exchange";
        scene.management.ask("PUT", exchange, Map.of("type", "fanout"), 204);
        scene.management.ask("POST", "/bindings", Map.of("source", scene.prefix + "-exchange",
                "destination_queue", queues.get(2), "binding_key", "", "arguments", Map.of()), 204);
        var producer = scene.session.createProducer(null);
        for (String to : List.of("/queues/" + queues.get(0), "/queues/" + queues.get(1), exchange)) {
            producer.send(scene.session.createQueue(to), scene.session.createTextMessage(to));
        }
        for (String queue : queues) {
            equal(queue, scene.count(queue), 1L);
        }
        scene.management.ask("DELETE", exchange, null, 204);
    }

    /** JMS has no exclusive consumers on a queue. */
    private static void attachRefused(Scene scene) throws Exception {
        String missing = scene.prefix + "-missing";
        Scene.refused("amqp:not-found", () -> scene.consumer(missing));
        Scene.refused("amqp:not-found", () -> scene.session.createProducer(scene.destination(missing)));
        Scene.refused("amqp:invalid-field",
                () -> scene.session.createConsumer(scene.session.createQueue("/nonsense/x")));
        String queue = scene.queue("");
        scene.publish(queue, "the session lives");
        Scene.textIs("the session lives", scene.consumer(queue));
    }

    private static void deleted(Scene scene) throws Exception {
        String queue = scene.queue("");
        var consumer = scene.consumer(queue);
        scene.management.ask("DELETE", "/queues/" + queue, null, 200);
        // A receive that begins while the detach is on its way would wait for ever: what else is
        // asked of the consumer fails once it is closed, and says why.
        Scene.refused("amqp:resource-deleted", () -> {
            until("the consumer is not closed", () -> consumer.getMessageSelector() != null);
            return null;
        });
    }

    private static void dynamic(Scene scene) throws Exception {
        var temporary = scene.session.createTemporaryQueue();
        var consumer = scene.session.createConsumer(temporary);
        var other = Scene.session(scene.connect("?jms.prefetchPolicy.all=0"));
        var address = other.createQueue(temporary.getQueueName());
        var producer = other.createProducer(address);
        producer.send(other.createTextMessage("answer"));
        Scene.textIs("answer", consumer);
        producer.close();
        consumer.close();
        temporary.delete();
        Scene.refused("amqp:not-found", () -> other.createProducer(address));
    }

    private static void selector(Scene scene) throws Exception {
        String queue = scene.queue("");
        for (String colour : List.of("red", "blue", "red", "green", "red", "blue")) {
            var message = scene.session.createTextMessage(colour);
            message.setStringProperty("colour", colour);
            scene.publish(queue, message);
        }
        var red = scene.session.createConsumer(scene.destination(queue), "colour = 'red'");
        for (int at = 0; at < 3; at++) {
            Scene.textIs("red", red);
        }
        Scene.nothing(red);
        var rest = scene.consumer(queue);
        for (String colour : List.of("blue", "green", "blue")) {
            Scene.textIs(colour, rest);
        }
    }

    /** JMS gives no outcomes for what it browses, and ends with a drain. */
    private static void browse(Scene scene) throws Exception {
        String queue = scene.queue("");
        for (int number = 0; number < 4; number++) {
            var message = scene.session.createTextMessage(Integer.toString(number));
            message.setBooleanProperty("even", number % 2 == 0);
            scene.publish(queue, message);
        }
        var session = Scene.session(scene.connect(""));
        var address = session.createQueue("/queues/" + queue);
        equal("what is there", texts(session.createBrowser(address)), List.of("0", "1", "2", "3"));
        equal("what the selector wants", texts(session.createBrowser(address, "even = TRUE")),
                List.of("0", "2"));
        equal("left in the queue", scene.count(queue), 4L);
        var consumer = scene.consumer(queue);
        Scene.settle(comes(consumer, "0", 1), Scene.ACCEPTED);
        equal("without the first", texts(session.createBrowser(address)), List.of("1", "2", "3"));
    }

    private static List<String> texts(QueueBrowser browser) throws Exception {
        var texts = new ArrayList<String>();
        for (var messages = browser.getEnumeration(); messages.hasMoreElements(); ) {
            texts.add(((TextMessage) messages.nextElement()).getText());
        }
        browser.close();
        return texts;
    }

    private static void transactions(Scene scene) throws Exception {
        String queue = scene.queue("");
        var session = scene.connect("").createSession(true, Session.SESSION_TRANSACTED);
        var address = session.createQueue("/queues/" + queue);
        var producer = session.createProducer(address);
        for (String text : List.of("1", "2", "3")) {
            producer.send(session.createTextMessage(text));
        }
        equal("before the commit", scene.count(queue), 0L);
        session.commit();
        equal("after the commit", scene.count(queue), 3L);
        producer.send(session.createTextMessage("never"));
        session.rollback();
        equal("after the rollback", scene.count(queue), 3L);
        var consumer = session.createConsumer(address);
        comes(consumer, "1", 1);
        comes(consumer, "2", 1);
        session.rollback();
        var again = comes(consumer, "1", 2);
        equal("redelivered", again.getJMSRedelivered(), true);
        comes(consumer, "2", 2);
        session.commit();
        comes(consumer, "3", 1);
        consumer.close(); // what it took is of the session's transaction all the same
        session.commit();
        equal("left in the queue", scene.count(queue), 0L);
        session.close();
        listens(scene, queue, scene.queue("-replies"));
    }

    /** A listener as Spring's, transacted: receive, reply and commit for each; one is thrown back. */
    private static void listens(Scene scene, String queue, String replies) throws Exception {
        scene.publish(queue, "0", "1", "2", "3", "4");
        var session = scene.connect("").createSession(true, Session.SESSION_TRANSACTED);
        var consumer = session.createConsumer(session.createQueue("/queues/" + queue));
        var producer = session.createProducer(session.createQueue("/queues/" + replies));
        for (int number = 0, failures = 0; number < 5; ) {
            var message = comes(consumer, Integer.toString(number), number == 2 ? 1 + failures : failures + 1);
            producer.send(session.createTextMessage("reply " + ((TextMessage) message).getText()));
            if (number == 2 && failures == 0) {
                failures++;
                session.rollback();
                continue;
            }
            session.commit();
            failures = 0;
            number++;
        }
        session.close();
        equal("left in the queue", scene.count(queue), 0L);
        var reader = scene.consumer(replies);
        for (int number = 0; number < 5; number++) {
            Scene.textIs("reply " + number, reader);
        }
        Scene.nothing(reader);
    }

    private Links() {}
}
