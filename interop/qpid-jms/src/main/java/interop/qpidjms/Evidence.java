package interop.qpidjms;

import static interop.Check.TIMEOUT_MS;
import static interop.Check.equal;
import static interop.Check.that;
import static interop.Check.until;

import interop.Culprit;
import interop.History;
import interop.Runner;
import interop.Runner.Scenario;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.types.Symbol;

/**
 * Qpid JMS can say nothing of why it rejects, and sets no properties of links: JMS sees that nothing is invented,
 * and ProtonJ2 reads who it was.
 */
final class Evidence {
    static final Map<String, Scenario<Scene>> SCENARIOS = Map.of("evidence", Evidence::evidence);

    private static void who(Object by, String how, Scene scene, String container) {
        String link = (String) ((Map<?, ?>) by).get(Symbol.valueOf("link"));
        that("link " + link, link.startsWith("qpid-jms:receiver:"));
        new Culprit(how, container, link, scene.setting.user()).check(by, Symbol::valueOf);
    }

    private static void evidence(Scene scene) throws Exception {
        String last = scene.queue("-last");
        String dead = scene.queue("-dead", History.to(last));
        String queue = scene.queue("", History.to(dead));
        scene.publish(queue, "order");
        String first = scene.connection.getClientID();
        Scene.settle(Scene.receive(scene.consumer(queue)), Scene.REJECTED);
        until("it is not dead-lettered", () -> scene.count(dead) == 1);
        // What is confirmed now makes all before it safe, the rejection too.
        scene.publish(scene.queue("-safe"), "safe");
        Runner.restartBroker();
        scene.openManagement();

        var connection = scene.connect("?jms.prefetchPolicy.all=0");
        var session = Scene.session(connection);
        var letter = Scene.receive(session.createConsumer(session.createQueue("/queues/" + dead)));
        for (String name : new String[] {"condition", "description", "by"}) {
            equal(name, Scene.annotation(letter, "x-opt-last-death-" + name), null);
        }
        Scene.settle(letter, Scene.MODIFIED_FAILED_UNDELIVERABLE);
        until("it does not die again", () -> scene.count(last) == 1);

        Map<String, Object> full = Map.of("x-opt-death-evidence", Symbol.valueOf("full"));
        var reader = scene.managed.openReceiver("/queues/" + last, new ReceiverOptions().properties(full));
        var delivery = reader.receive(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        that("nothing comes", delivery != null);
        var message = delivery.message();
        that("an invented condition", message.annotation("x-opt-last-death-condition") == null);
        who(message.annotation("x-opt-last-death-by"), "undeliverable-here", scene, connection.getClientID());
        var entries = (Map<?, ?>[]) message.annotation("x-opt-deaths");
        equal("entries", entries.length, 2);
        who(entries[0].get(Symbol.valueOf("by")), "undeliverable-here", scene, connection.getClientID());
        who(entries[1].get(Symbol.valueOf("by")), "rejected", scene, first);
    }

    private Evidence() {}
}
