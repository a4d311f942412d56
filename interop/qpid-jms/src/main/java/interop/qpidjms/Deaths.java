package interop.qpidjms;

import static interop.Check.equal;
import static interop.Check.that;
import static interop.Check.until;

import interop.History;
import interop.History.Death;
import interop.Runner;
import interop.Runner.Scenario;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.qpid.proton.amqp.Symbol;
import org.apache.qpid.proton.amqp.UnsignedInteger;
import org.apache.qpid.proton.amqp.UnsignedLong;

/** Dead letters with their history, and what survives a restart. */
final class Deaths {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();
    private static final History HISTORY = new History(Symbol::valueOf, UnsignedLong::valueOf,
            UnsignedInteger::valueOf, time -> ((Date) time).getTime());

    static {
        SCENARIOS.put("rejected", Deaths::rejected);
        SCENARIOS.put("expired", Deaths::expired);
        SCENARIOS.put("maxlen", Deaths::maxlen);
        SCENARIOS.put("delivery-limit", Deaths::deliveryLimit);
        SCENARIOS.put("cycle", Deaths::cycle);
        SCENARIOS.put("restart", Deaths::restart);
    }

    /** The whole history: entries newest first, and the first death. */
    private static void history(Message message, Death first, Death... entries) throws Exception {
        HISTORY.check(name -> Scene.annotation(message, name), first, entries);
    }

    private static MapMessage letter(Scene scene) throws Exception {
        var letter = scene.session.createMapMessage();
        letter.setString("text", "dear");
        letter.setJMSType("greeting");
        letter.setJMSCorrelationID("letter");
        letter.setLongProperty("n", 7);
        return letter;
    }

    private static void unchanged(Message message) throws Exception {
        equal("type", message.getJMSType(), "greeting");
        equal("correlation id", message.getJMSCorrelationID(), "letter");
        equal("n", message.getObjectProperty("n"), 7L);
        equal("body", ((MapMessage) message).getString("text"), "dear");
    }

    /** A queue that dead-letters to another one. */
    private static String dying(Scene scene, String dead, Map<String, Object> more) throws Exception {
        var arguments = new HashMap<>(History.to(dead));
        arguments.putAll(more);
        return scene.queue("", arguments);
    }

    private static void rejected(Scene scene) throws Exception {
        String last = scene.queue("-last");
        String dead = scene.queue("-dead", History.to(last));
        String queue = dying(scene, dead, Map.of());
        var producer = scene.session.createProducer(scene.destination(queue));
        producer.setTimeToLive(History.MINUTE_MS);
        producer.send(letter(scene));
        Scene.settle(Scene.receive(scene.consumer(queue)), Scene.REJECTED);
        var message = Scene.receive(scene.consumer(dead));
        unchanged(message);
        var once = new Death(queue, "rejected", 1, History.MINUTE_MS);
        history(message, once, once);
        Scene.settle(message, Scene.REJECTED);
        message = Scene.receive(scene.consumer(last));
        unchanged(message);
        history(message, once, new Death(dead, "rejected"), once);
    }

    /** One dead letter in the queue, unchanged, with this history. */
    private static void died(Scene scene, String dead, Death death) throws Exception {
        var message = Scene.receive(scene.consumer(dead));
        unchanged(message);
        history(message, death, death);
    }

    private static void expired(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = dying(scene, dead, Map.of("x-message-ttl", 100));
        var consumer = scene.consumer(dead);
        long begun = System.nanoTime();
        scene.publish(queue, letter(scene));
        var message = Scene.receive(consumer);
        that("within 5 s", System.nanoTime() - begun < 5_000_000_000L);
        unchanged(message);
        var once = new Death(queue, "expired");
        history(message, once, once);
        dropped(scene);
    }

    /** What expired keeps its absolute-expiry-time as a dead letter, and the client drops it, unless it is told. */
    private static void dropped(Scene scene) throws Exception {
        String last = scene.queue("-again");
        String dead = scene.queue("-unseen", History.to(last));
        String queue = scene.queue("-mortal", History.to(dead));
        var producer = scene.session.createProducer(scene.destination(queue));
        producer.setTimeToLive(50);
        producer.send(letter(scene));
        until("it does not expire", () -> scene.count(dead) == 1);
        Scene.nothing(scene.consumer(dead));
        until("the client does not drop it", () -> scene.count(last) == 1);
        var patient = scene.connect("?jms.prefetchPolicy.all=0&jms.localMessageExpiry=false");
        unchanged(Scene.receive(consumer(Scene.session(patient), last)));
    }

    private static void maxlen(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = dying(scene, dead, Map.of("x-max-length", 1));
        scene.publish(queue, letter(scene), scene.session.createTextMessage("second"));
        died(scene, dead, new Death(queue, "maxlen"));
        equal("left in the queue", scene.count(queue), 1L);
    }

    private static void deliveryLimit(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = dying(scene, dead, Map.of("x-queue-type", "quorum", "x-delivery-limit", 1));
        scene.publish(queue, letter(scene));
        var consumer = scene.consumer(queue);
        for (int count = 1; count <= 2; count++) {
            var message = Scene.receive(consumer);
            equal("JMSXDeliveryCount", message.getIntProperty("JMSXDeliveryCount"), count);
            Scene.settle(message, Scene.MODIFIED_FAILED);
        }
        died(scene, dead, new Death(queue, "delivery_limit"));
        prefetched(scene);
    }

    /** A message that nobody saw has failed if its connection is closed, and not if its consumer is. */
    private static void prefetched(Scene scene) throws Exception {
        String queue = scene.queue("-prefetched", Map.of("x-queue-type", "quorum"));
        scene.publish(queue, letter(scene));
        var connection = scene.connect("?jms.prefetchPolicy.all=10");
        var consumer = consumer(Scene.session(connection), queue);
        until("it is not prefetched", () -> scene.count(queue) == 0);
        consumer.close();
        until("it does not come back", () -> scene.count(queue) == 1);
        var session = Scene.session(connection);
        var message = Scene.receive(consumer(session, queue));
        equal("JMSXDeliveryCount after the consumer's close", message.getIntProperty("JMSXDeliveryCount"), 1);
        Scene.settle(message, Scene.RELEASED);
        until("it is not prefetched again", () -> scene.count(queue) == 0);
        connection.close();
        until("it does not come back", () -> scene.count(queue) == 1);
        message = Scene.receive(scene.consumer(queue));
        equal("JMSXDeliveryCount after the connection's close", message.getIntProperty("JMSXDeliveryCount"), 2);
        Scene.settle(message, Scene.ACCEPTED);
    }

    private static void cycle(Scene scene) throws Exception {
        String alone = scene.queue("-alone", Map.of("x-message-ttl", 50, "x-dead-letter-exchange", ""));
        scene.publish(alone, letter(scene));
        until("it still turns", () -> scene.count(alone) == 0);
        String queue = scene.queue("-rejected", Map.of("x-dead-letter-exchange", ""));
        scene.publish(queue, letter(scene));
        var consumer = scene.consumer(queue);
        for (int turn = 0; turn < 2; turn++) {
            Scene.settle(Scene.receive(consumer), Scene.REJECTED);
        }
        var twice = new Death(queue, "rejected", 2, 0);
        history(Scene.receive(consumer), twice, twice);
    }

    private static void fleeting(Session session, Scene scene, String queue, String text)
            throws Exception {
        var producer = session.createProducer(scene.destination(queue));
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        producer.send(session.createTextMessage(text));
        producer.close();
    }

    private static MessageConsumer consumer(Session session, String queue) throws Exception {
        return session.createConsumer(session.createQueue("/queues/" + queue));
    }

    /** The connection with failover lives through the restart. */
    private static void restart(Scene scene) throws Exception {
        Map<String, Object> quorumType = Map.of("x-queue-type", "quorum");
        String classic = scene.queue("-classic");
        String quorum = scene.queue("-quorum", quorumType);
        String dead = scene.queue("-dead");
        String queue = dying(scene, dead, quorumType);
        var session = Scene.session(scene.connect("failover:(" + scene.url()
                + ")?jms.forceSyncSend=true&jms.prefetchPolicy.all=0&failover.reconnectDelay=100",
                scene.setting.user(), scene.setting.password(), null));
        scene.publish(queue, letter(scene));
        Scene.settle(Scene.receive(scene.consumer(queue)), Scene.REJECTED);
        until("it is not dead-lettered", () -> scene.count(dead) == 1);
        // What is confirmed now makes all before it safe, the rejection too.
        scene.publish(classic, "kept");
        fleeting(session, scene, classic, "lost");
        fleeting(session, scene, quorum, "quorum");
        Runner.restartBroker();
        scene.openManagement();
        for (String kept : Set.of(classic, quorum, dead)) {
            equal(kept, scene.count(kept), 1L);
        }
        Scene.textIs("kept", consumer(session, classic));
        Scene.textIs("quorum", consumer(session, quorum));
        var message = Scene.receive(consumer(session, dead));
        unchanged(message);
        var once = new Death(queue, "rejected");
        history(message, once, once);
    }

    private Deaths() {}
}
