package interop.rabbitmqjava;

import static interop.Check.equal;
import static interop.Check.that;
import static interop.Check.until;

import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.qpid.protonj2.types.Symbol;
import com.rabbitmq.qpid.protonj2.types.UnsignedInteger;
import com.rabbitmq.qpid.protonj2.types.UnsignedLong;
import interop.History;
import interop.History.Death;
import interop.Runner;
import interop.Runner.Scenario;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Dead letters with their history, and what survives a restart. */
final class Deaths {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();
    // The client reads a timestamp as a Long.
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

    /** The message is unchanged but for its whole history: entries newest first. */
    private static void history(Message message, Death first, Death... entries) throws Exception {
        equal("message-id", message.messageId(), "letter");
        equal("subject", message.subject(), "greeting");
        equal("n", message.property("n"), 7L);
        equal("body", new String(message.body()), "dear");
        HISTORY.check(message::annotation, first, entries);
    }

    private static Message letter(Publisher publisher) {
        return publisher.message("dear".getBytes()).messageId("letter").subject("greeting")
                .property("n", 7L);
    }

    private static void send(Scene scene, String queue) throws Exception {
        try (var publisher = scene.publisher(queue)) {
            Scene.accepted(publisher, letter(publisher));
        }
    }

    /** A specification of a queue that dead-letters to another one. */
    private static Management.QueueSpecification dying(Scene scene, String dead) {
        return scene.management.queue(scene.prefix).type(Management.QueueType.CLASSIC)
                .deadLetterExchange("").deadLetterRoutingKey(dead);
    }

    private static void rejected(Scene scene) throws Exception {
        String last = scene.queue("-last");
        String dead = scene.queue("-dead", History.to(last));
        String queue = scene.declared(scene.prefix, dying(scene, dead));
        var publisher = scene.publisher(queue);
        Scene.accepted(publisher, letter(publisher).ttl(Duration.ofMillis(History.MINUTE_MS)));
        scene.inbox(queue).take().context().discard();
        var once = new Death(queue, "rejected", 1, History.MINUTE_MS);
        var letter = scene.inbox(dead).take();
        history(letter.message(), once, once);
        letter.context().discard();
        history(scene.inbox(last).take().message(), once, new Death(dead, "rejected"), once);
    }

    private static void expired(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = scene.declared(scene.prefix,
                dying(scene, dead).messageTtl(Duration.ofMillis(100)));
        var inbox = scene.inbox(dead);
        long begun = System.nanoTime();
        send(scene, queue);
        var letter = inbox.take();
        that("within 5 s", System.nanoTime() - begun < 5_000_000_000L);
        var once = new Death(queue, "expired");
        history(letter.message(), once, once);
    }

    private static void maxlen(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = scene.declared(scene.prefix, dying(scene, dead).maxLength(1));
        send(scene, queue);
        scene.publish(queue, "second");
        var once = new Death(queue, "maxlen");
        history(scene.inbox(dead).take().message(), once, once);
        equal("left in the queue", scene.count(queue), 1L);
    }

    private static void deliveryLimit(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = scene.declared(scene.prefix,
                dying(scene, dead).quorum().deliveryLimit(1).queue());
        send(scene, queue);
        var inbox = scene.inbox(queue);
        for (long count = 0; count < 2; count++) {
            var letter = inbox.take();
            equal("delivery-count", letter.message().deliveryCount(), count);
            letter.context().requeue(Map.of(), true);
        }
        var once = new Death(queue, "delivery_limit");
        history(scene.inbox(dead).take().message(), once, once);
    }

    private static void cycle(Scene scene) throws Exception {
        String alone = scene.queue("-alone", Map.of("x-message-ttl", 50, "x-dead-letter-exchange", ""));
        send(scene, alone);
        until("it still turns", () -> scene.count(alone) == 0);
        String queue = scene.queue("-rejected", Map.of("x-dead-letter-exchange", ""));
        send(scene, queue);
        var inbox = scene.inbox(queue);
        for (int turn = 0; turn < 2; turn++) {
            inbox.take().context().discard();
        }
        var twice = new Death(queue, "rejected", 2, 0);
        history(inbox.take().message(), twice, twice);
    }

    /** The connection recovers by itself. */
    private static void restart(Scene scene) throws Exception {
        String classic = scene.queue("-classic");
        String quorum = scene.declared(scene.prefix + "-quorum",
                scene.management.queue(scene.prefix + "-quorum").quorum().queue());
        String dead = scene.queue("-dead");
        String queue = scene.declared(scene.prefix, dying(scene, dead).quorum().queue());
        send(scene, queue);
        scene.inbox(queue).take().context().discard();
        until("it is not dead-lettered", () -> scene.count(dead) == 1);
        // What is confirmed now makes all before it safe, the rejection too.
        scene.publish(classic, "kept");
        fleeting(scene, classic, "lost");
        fleeting(scene, quorum, "quorum");
        Runner.restartBroker();
        until("the connection does not recover", scene::recovered);
        for (String kept : List.of(classic, quorum, dead)) {
            equal(kept, scene.count(kept), 1L);
        }
        scene.inbox(classic).textIs("kept");
        scene.inbox(quorum).textIs("quorum");
        var once = new Death(queue, "rejected");
        history(scene.inbox(dead).take().message(), once, once);
    }

    private static void fleeting(Scene scene, String queue, String text) throws Exception {
        try (var publisher = scene.publisher(queue)) {
            Scene.accepted(publisher, publisher.message(text.getBytes()).durable(false));
        }
    }

    private Deaths() {}
}
