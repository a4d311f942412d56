package interop.protonj2;

import static interop.Check.TIMEOUT_MS;
import static interop.Check.equal;
import static interop.Check.that;
import static interop.Check.until;

import interop.History;
import interop.Runner.Scenario;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.AdvancedMessage;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryMode;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.Rejected;
import org.apache.qpid.protonj2.client.SenderOptions;
import org.apache.qpid.protonj2.types.Symbol;
import org.apache.qpid.protonj2.types.UnsignedLong;

/** Outcomes, credit, drain, termini, filters. */
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
        SCENARIOS.put("transactions", Links::transactions);
    }

    private static void publishNumbers(Scene scene, String queue, int count) throws Exception {
        for (int number = 0; number < count; number++) {
            scene.publish(queue, Message.create((Object) number));
        }
    }

    /** The next message, for a credit of its own. */
    private static Delivery comes(Receiver receiver, String body, long count, boolean first)
            throws Exception {
        receiver.addCredit(1);
        var delivery = Scene.receive(receiver);
        AdvancedMessage<Object> message = delivery.message().toAdvancedMessage();
        equal("body", message.body(), body);
        equal("delivery-count", message.deliveryCount(), count);
        equal("first-acquirer", message.firstAcquirer(), first);
        return delivery;
    }

    private static void outcomes(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = scene.queue("", History.to(dead));
        for (String name : List.of("accepted", "released", "modified", "rejected", "undeliverable")) {
            scene.publish(queue, Message.create(name));
        }
        var receiver = scene.receiver(queue, Scene.options(0));
        comes(receiver, "accepted", 0, true).accept();
        comes(receiver, "released", 0, true).release();
        comes(receiver, "released", 0, false).accept();
        comes(receiver, "modified", 0, true).disposition(
                DeliveryState.modified(true, false, Map.of("x-opt-note", "seen")), true);
        var modified = comes(receiver, "modified", 1, false);
        equal("annotation", modified.message().annotation("x-opt-note"), "seen");
        modified.accept();
        comes(receiver, "rejected", 0, true).reject("app:bad", "cannot be read");
        comes(receiver, "undeliverable", 0, true).modified(false, true);
        var reader = scene.receiver(dead);
        Scene.bodyIs("rejected", reader);
        Scene.bodyIs("undeliverable", reader);
        equal("left in the queue", scene.count(queue), 0L);
    }

    private static void refusals(Scene scene) throws Exception {
        String exchange = scene.prefix + "-exchange";
        scene.management.ask("PUT", "/exchanges/" + exchange, Map.of("type", "direct"), 204);
        var nowhere = scene.connection.openSender("/exchanges/" + exchange + "/nowhere");
        that("released", Scene.outcome(nowhere, Message.create("x")).isReleased());
        scene.management.ask("DELETE", "/exchanges/" + exchange, null, 204);
        String queue = scene.queue("", Map.of("x-max-length", 1, "x-overflow", "reject-publish"));
        scene.publish(queue, Message.create("x"));
        var rejected = (Rejected) Scene.outcome(scene.sender(queue), Message.create("x"));
        equal("condition", rejected.getCondition(), "amqp:resource-limit-exceeded");
        equal("info", rejected.getInfo(), Map.of("queue", queue, "reason", Symbol.valueOf("maxlen")));
    }

    private static void credit(Scene scene) throws Exception {
        String queue = scene.queue("");
        publishNumbers(scene, queue, 5);
        var receiver = scene.receiver(queue, Scene.options(0));
        Scene.nothing(receiver);
        receiver.addCredit(2);
        var first = List.of(Scene.receive(receiver), Scene.receive(receiver));
        Scene.nothing(receiver);
        for (int at = 0; at < 2; at++) {
            equal("body", first.get(at).accept().message().body(), at);
        }
        receiver.addCredit(3);
        for (int number = 2; number < 5; number++) {
            Scene.bodyIs(number, receiver);
        }
        scene.publish(queue, Message.create("late"));
        Scene.nothing(receiver);
    }

    private static void drain(Scene scene) throws Exception {
        String queue = scene.queue("");
        publishNumbers(scene, queue, 3);
        var receiver = scene.receiver(queue, Scene.options(0));
        receiver.addCredit(10);
        receiver.drain().get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        equal("messages that came", receiver.queuedDeliveries(), 3L);
        for (int number = 0; number < 3; number++) {
            Scene.bodyIs(number, receiver);
        }
        scene.publish(queue, Message.create("late"));
        Scene.nothing(receiver);
    }

    private static void presettled(Scene scene) throws Exception {
        String queue = scene.queue("");
        var sender = scene.connection.openSender("/queues/" + queue,
                new SenderOptions().deliveryMode(DeliveryMode.AT_MOST_ONCE));
        sender.send(Message.create("settled"));
        until("it does not arrive", () -> scene.count(queue) == 1);
        var receiver = scene.receiver(queue, Scene.options(10).deliveryMode(DeliveryMode.AT_MOST_ONCE));
        var delivery = Scene.receive(receiver);
        equal("body", delivery.message().body(), "settled");
        equal("settled", delivery.remoteSettled(), true);
        receiver.close();
        equal("left in the queue", scene.count(queue), 0L);
    }

    private static void anonymousTerminus(Scene scene) throws Exception {
        var queues = List.of(scene.queue("-one"), scene.queue("-two"), scene.queue("-bound"));
        String exchange = scene.prefix + "-exchange";
        scene.management.ask("PUT", "/exchanges/" + exchange, Map.of("type", "fanout"), 204);
        scene.management.ask("POST", "/bindings", Map.of("source", exchange, "destination_queue",
                queues.get(2), "binding_key", "", "arguments", Map.of()), 204);
        var sender = Scene.opened(scene.connection.openAnonymousSender());
        for (String to : List.of("/queues/" + queues.get(0), "/queues/" + queues.get(1),
                "/exchanges/" + exchange)) {
            that(to, Scene.outcome(sender, Message.create(to).to(to)).isAccepted());
        }
        for (String queue : queues) {
            equal(queue, scene.count(queue), 1L);
        }
        that("rejected", Scene.outcome(sender, Message.create("to nobody")).isRejected());
        scene.management.ask("DELETE", "/exchanges/" + exchange, null, 204);
    }

    private static void attachRefused(Scene scene) throws Exception {
        String missing = scene.prefix + "-missing";
        Scene.refused("amqp:not-found", () -> scene.receiver(missing));
        Scene.refused("amqp:not-found", () -> scene.sender(missing));
        Scene.refused("amqp:invalid-field",
                () -> Scene.opened(scene.connection.openReceiver("/nonsense/x")));
        String queue = scene.queue("");
        var alone = scene.receiver(queue, Scene.options(1).properties(Map.of("exclusive", true)));
        Scene.refused("amqp:resource-locked", () -> scene.receiver(queue));
        alone.close();
        scene.publish(queue, Message.create("the session lives"));
        Scene.bodyIs("the session lives", scene.receiver(queue));
    }

    private static void deleted(Scene scene) throws Exception {
        String queue = scene.queue("");
        var receiver = scene.receiver(queue);
        scene.management.ask("DELETE", "/queues/" + queue, null, 200);
        Scene.refused("amqp:resource-deleted", () -> Scene.receive(receiver));
    }

    private static void dynamic(Scene scene) throws Exception {
        var receiver = Scene.opened(scene.connection.openDynamicReceiver());
        String address = receiver.address();
        var other = scene.connect(scene.plain());
        var sender = Scene.opened(other.openSender(address));
        that("accepted", Scene.outcome(sender, Message.create("answer")).isAccepted());
        Scene.bodyIs("answer", receiver);
        sender.close();
        receiver.close();
        Scene.refused("amqp:not-found", () -> Scene.opened(other.openSender(address)));
    }

    private static void selector(Scene scene) throws Exception {
        String queue = scene.queue("");
        long id = 0;
        for (String colour : List.of("red", "blue", "red", "green", "red", "blue")) {
            scene.publish(queue, Message.create(colour).messageId(UnsignedLong.valueOf(id++))
                    .property("colour", colour));
        }
        var options = Scene.options(10);
        options.sourceOptions().addFilter("selector", UnsignedLong.valueOf(0x0000468C00000004L),
                "colour = 'red'");
        var red = scene.receiver(queue, options);
        for (long expected : new long[] {0, 2, 4}) {
            var delivery = Scene.receive(red);
            equal("message-id", delivery.message().messageId(), UnsignedLong.valueOf(expected));
            delivery.accept();
        }
        Scene.nothing(red);
        var rest = scene.receiver(queue);
        for (String colour : List.of("blue", "green", "blue")) {
            Scene.bodyIs(colour, rest);
        }
    }

    private static void transactions(Scene scene) throws Exception {
        String queue = scene.queue("");
        var session = scene.connection.openSession();
        session.openFuture().get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        var sender = Scene.opened(session.openSender("/queues/" + queue));
        session.beginTransaction();
        sender.send(Message.create("1"));
        sender.send(Message.create("2"));
        equal("before the commit", scene.count(queue), 0L);
        session.commitTransaction();
        equal("after the commit", scene.count(queue), 2L);
        session.beginTransaction();
        sender.send(Message.create("never"));
        session.rollbackTransaction();
        equal("after the rollback", scene.count(queue), 2L);
        var receiver = Scene.opened(session.openReceiver("/queues/" + queue, Scene.options(0)));
        session.beginTransaction();
        comes(receiver, "1", 0, true).accept();
        session.rollbackTransaction();
        session.beginTransaction();
        comes(receiver, "1", 1, false).accept();
        sender.send(Message.create("3"));
        session.commitTransaction();
        session.beginTransaction();
        comes(receiver, "2", 0, true).accept();
        comes(receiver, "3", 0, true).accept();
        session.commitTransaction();
        equal("left in the queue", scene.count(queue), 0L);
        session.close();
    }

    private Links() {}
}
