package interop.rabbitmqjava;

import static interop.Check.TIMEOUT_MS;
import static interop.Check.equal;
import static interop.Check.that;

import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.Resource;
import interop.History;
import interop.Runner.Scenario;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Outcomes, credit, termini. */
final class Links {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("outcomes", Links::outcomes);
        SCENARIOS.put("refusals", Links::refusals);
        SCENARIOS.put("credit", Links::credit);
        SCENARIOS.put("drain", scene -> Connections.skip("never drains; it pauses by credit 0"));
        SCENARIOS.put("presettled", Links::presettled);
        SCENARIOS.put("anonymous-terminus", Links::anonymousTerminus);
        SCENARIOS.put("attach-refused", Links::attachRefused);
        SCENARIOS.put("deleted", Links::deleted);
        SCENARIOS.put("dynamic", scene -> Connections.skip(
                "has dynamic nodes inside its requesters only, for RabbitMQ 4.2 and newer"));
        SCENARIOS.put("selector", scene -> Connections.skip("has filters on streams only"));
    }

    private static Inbox.Letter comes(Scene scene, Inbox inbox, String text, long count,
            boolean first) throws Exception {
        var letter = inbox.take();
        // A message settled while its handler ends can be followed by credit that the client sends
        // ahead of the outcome, and the next message comes first: let the handler end.
        scene.count(scene.prefix);
        equal("text", letter.text(), text);
        equal("delivery-count of " + text, letter.message().deliveryCount(), count);
        equal("first-acquirer of " + text, letter.message().firstAcquirer(), first);
        return letter;
    }

    /** The client rejects without an error. */
    private static void outcomes(Scene scene) throws Exception {
        String dead = scene.queue("-dead");
        String queue = scene.queue("", History.to(dead));
        scene.publish(queue, "accepted", "released", "modified", "rejected", "undeliverable");
        var inbox = new Inbox(scene.connection.consumerBuilder().queue(queue).initialCredits(1));
        comes(scene, inbox, "accepted", 0, true).context().accept();
        comes(scene, inbox, "released", 0, true).context().requeue();
        comes(scene, inbox, "released", 0, false).context().accept();
        comes(scene, inbox, "modified", 0, true).context().requeue(Map.of("x-opt-note", "seen"), true);
        var modified = comes(scene, inbox, "modified", 1, false);
        equal("annotation", modified.message().annotation("x-opt-note"), "seen");
        modified.context().accept();
        comes(scene, inbox, "rejected", 0, true).context().discard();
        comes(scene, inbox, "undeliverable", 0, true).context().discard(Map.of("x-opt-note", "why"));
        var reader = scene.inbox(dead);
        reader.textIs("rejected");
        var discarded = comes(scene, reader, "undeliverable", 1, false);
        equal("annotation", discarded.message().annotation("x-opt-note"), "why");
        discarded.context().accept();
        equal("left in the queue", scene.count(queue), 0L);
    }

    private static void refusals(Scene scene) throws Exception {
        String exchange = scene.prefix + "-exchange";
        scene.management.exchange(exchange).type(Management.ExchangeType.DIRECT).declare();
        var nowhere = scene.connection.publisherBuilder().exchange(exchange).key("nowhere").build();
        equal("outcome", Scene.outcome(nowhere, nowhere.message(new byte[1])).status(),
                Publisher.Status.RELEASED);
        scene.management.exchangeDelete(exchange);
        String queue = scene.declared(scene.prefix, scene.management.queue(scene.prefix)
                .type(Management.QueueType.CLASSIC).maxLength(1)
                .overflowStrategy(Management.OverflowStrategy.REJECT_PUBLISH));
        scene.publish(queue, "x");
        var publisher = scene.publisher(queue);
        var rejected = Scene.outcome(publisher, publisher.message(new byte[1]));
        equal("outcome", rejected.status(), Publisher.Status.REJECTED);
        // The client gives the description of the error only.
        String why = rejected.failureCause().getMessage();
        that(why, why.contains(queue));
    }

    private static void credit(Scene scene) throws Exception {
        String queue = scene.queue("");
        scene.publish(queue, "0", "1", "2", "3", "4");
        var inbox = new Inbox(scene.connection.consumerBuilder().queue(queue).initialCredits(2));
        var first = List.of(inbox.take(), inbox.take());
        inbox.nothing();
        first.forEach(letter -> letter.context().accept());
        for (String text : List.of("2", "3", "4")) {
            inbox.textIs(text);
        }
        inbox.consumer.pause();
        scene.publish(queue, "late");
        inbox.nothing();
        inbox.consumer.unpause();
        inbox.textIs("late");
    }

    /** The client always publishes unsettled. */
    private static void presettled(Scene scene) throws Exception {
        String queue = scene.queue("");
        scene.publish(queue, "settled");
        var inbox = new Inbox(scene.connection.consumerBuilder().queue(queue).preSettled());
        equal("text", inbox.take().text(), "settled");
        inbox.close();
        equal("left in the queue", scene.count(queue), 0L);
    }

    private static void anonymousTerminus(Scene scene) throws Exception {
        var queues = List.of(scene.queue("-one"), scene.queue("-two"), scene.queue("-bound"));
        String exchange = scene.prefix + "-exchange";
        scene.management.exchange(exchange).type(Management.ExchangeType.FANOUT).declare();
        scene.management.binding().sourceExchange(exchange).destinationQueue(queues.get(2)).bind();
        var publisher = scene.connection.publisherBuilder().build();
        for (String queue : queues.subList(0, 2)) {
            Scene.accepted(publisher, publisher.message(new byte[1]).toAddress().queue(queue).message());
        }
        Scene.accepted(publisher,
                publisher.message(new byte[1]).toAddress().exchange(exchange).message());
        for (String queue : queues) {
            equal(queue, scene.count(queue), 1L);
        }
        equal("to nobody", Scene.outcome(publisher, publisher.message(new byte[1])).status(),
                Publisher.Status.REJECTED);
        scene.management.exchangeDelete(exchange);
    }

    /** The client makes all addresses itself, and has no exclusive consumers. */
    private static void attachRefused(Scene scene) throws Exception {
        String missing = scene.prefix + "-missing";
        Scene.refused("amqp:not-found", () -> scene.inbox(missing));
        Scene.refused("amqp:not-found", () -> scene.publisher(missing));
        String queue = scene.queue("");
        scene.publish(queue, "the connection lives");
        scene.inbox(queue).textIs("the connection lives");
    }

    private static void deleted(Scene scene) throws Exception {
        String queue = scene.queue("");
        var closed = new CompletableFuture<Throwable>();
        new Inbox(scene.connection.consumerBuilder().queue(queue).listeners(context -> {
            if (context.currentState() == Resource.State.CLOSED) {
                closed.complete(context.failureCause());
            }
        }));
        scene.management.queueDelete(queue);
        var cause = closed.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        that(cause.toString(), cause.toString().contains("amqp:resource-deleted"));
    }

    private Links() {}
}
