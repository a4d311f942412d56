package interop.protonj2;

import static interop.Check.equal;
import static interop.Check.that;
import static interop.Check.until;

import interop.History;
import interop.History.Death;
import interop.Runner;
import interop.Runner.Scenario;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.qpid.protonj2.client.AdvancedMessage;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.types.Symbol;
import org.apache.qpid.protonj2.types.UnsignedInteger;
import org.apache.qpid.protonj2.types.UnsignedLong;

/** Dead letters with their history, and what survives a restart. */
final class Deaths {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();
    // ProtonJ2 1.1.0 reads a timestamp as a Long.
    private static final History HISTORY = new History(Symbol::valueOf, UnsignedLong::valueOf,
            UnsignedInteger::valueOf, time -> (Long) time);

    static {
        SCENARIOS.put("rejected", Deaths::rejected);
        SCENARIOS.put("expired", Deaths::expired);
        SCENARIOS.put("maxlen", Deaths::maxlen);
        SCENARIOS.put("delivery-limit", Deaths::deliveryLimit);
        SCENARIOS.put("cycle", Deaths::cycle);
        SCENARIOS.put("restart", Deaths::restart);
    }

    /** The whole history: entries newest first, and the first death. */
    private static void history(Delivery delivery, Death first, Death... entries) throws Exception {
        var message = delivery.message();
        HISTORY.check(message::annotation, first, entries);
    }

    private static Message<Map<String, Object>> letter() throws Exception {
        return Message.create(Map.<String, Object>of("text", "dear")).messageId("letter")
                .subject("greeting").property("n", 7L);
    }

    private static AdvancedMessage<Object> unchanged(Delivery delivery) throws Exception {
        var message = delivery.message().toAdvancedMessage();
        equal("message-id", message.messageId(), "letter");
        equal("subject", message.subject(), "greeting");
        equal("application properties", message.applicationProperties().getValue(), Map.of("n", 7L));
        equal("body", message.body(), Map.of("text", "dear"));
        return message;
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
        scene.publish(queue, letter().timeToLive(History.MINUTE_MS));
        Scene.receive(scene.receiver(queue)).reject("app:bad", "cannot be read");
        var delivery = Scene.receive(scene.receiver(dead));
        that("no ttl is left", !unchanged(delivery).header().hasTimeToLive());
        var once = new Death(queue, "rejected", 1, History.MINUTE_MS);
        history(delivery, once, once);
        delivery.reject("app:bad", "cannot be read");
        delivery = Scene.receive(scene.receiver(last));
        unchanged(delivery);
        history(delivery, once, new Death(dead, "rejected"), once);
    }

    /** One dead letter in the queue, unchanged, with this history. */
    private static void died(Scene scene, String dead, Death death) throws Exception {
        var delivery = Scene.receive(scene.receiver(dead));
        unchanged(delivery);
        history(delivery, death, death);
    }

    private static void expired(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = dying(scene, dead, Map.of("x-message-ttl", 100));
        var receiver = scene.receiver(dead);
        long begun = System.nanoTime();
        scene.publish(queue, letter());
        var delivery = Scene.receive(receiver);
        that("within 5 s", System.nanoTime() - begun < 5_000_000_000L);
        unchanged(delivery);
        var once = new Death(queue, "expired");
        history(delivery, once, once);
    }

    private static void maxlen(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = dying(scene, dead, Map.of("x-max-length", 1));
        scene.publish(queue, letter(), Message.create("second"));
        died(scene, dead, new Death(queue, "maxlen"));
        equal("left in the queue", scene.count(queue), 1L);
    }

    private static void deliveryLimit(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = dying(scene, dead, Map.of("x-queue-type", "quorum", "x-delivery-limit", 1));
        scene.publish(queue, letter());
        var receiver = scene.receiver(queue);
        for (long count = 0; count < 2; count++) {
            var delivery = Scene.receive(receiver);
            equal("delivery-count", delivery.message().toAdvancedMessage().deliveryCount(), count);
            delivery.modified(true, false);
        }
        died(scene, dead, new Death(queue, "delivery_limit"));
    }

    private static void cycle(Scene scene) throws Exception {
        String alone = scene.queue("-alone", Map.of("x-message-ttl", 50, "x-dead-letter-exchange", ""));
        scene.publish(alone, letter());
        until("it still turns", () -> scene.count(alone) == 0);
        String queue = scene.queue("-rejected", Map.of("x-dead-letter-exchange", ""));
        scene.publish(queue, letter());
        var receiver = scene.receiver(queue);
        for (int turn = 0; turn < 2; turn++) {
            Scene.receive(receiver).reject("app:bad", "cannot be read");
        }
        var twice = new Death(queue, "rejected", 2, 0);
        history(Scene.receive(receiver), twice, twice);
    }

    private static void restart(Scene scene) throws Exception {
        Map<String, Object> quorumType = Map.of("x-queue-type", "quorum");
        String classic = scene.queue("-classic");
        String quorum = scene.queue("-quorum", quorumType);
        String dead = scene.queue("-dead");
        String queue = dying(scene, dead, quorumType);
        scene.publish(queue, letter().durable(true));
        Scene.receive(scene.receiver(queue)).reject("app:bad", "cannot be read");
        until("it is not dead-lettered", () -> scene.count(dead) == 1);
        // What is confirmed now makes all before it safe, the rejection too.
        scene.publish(classic, Message.create("kept").durable(true), Message.create("lost"));
        scene.publish(quorum, Message.create("quorum"));
        Runner.restartBroker();
        scene.again();
        for (String kept : Set.of(classic, quorum, dead)) {
            equal(kept, scene.count(kept), 1L);
        }
        Scene.bodyIs("kept", scene.receiver(classic));
        Scene.bodyIs("quorum", scene.receiver(quorum));
        died(scene, dead, new Death(queue, "rejected"));
    }

    private Deaths() {}
}
