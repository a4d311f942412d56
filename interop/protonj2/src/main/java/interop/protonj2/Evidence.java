package interop.protonj2;

import static interop.Check.equal;
import static interop.Check.that;
import static interop.Check.until;

import interop.Culprit;
import interop.History;
import interop.Runner;
import interop.Runner.Scenario;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.types.Symbol;
import org.apache.qpid.protonj2.types.UnknownDescribedType;

/** What a consumer says when it rejects stays with the dead letter, to the last type. */
final class Evidence {
    static final Map<String, Scenario<Scene>> SCENARIOS = Map.of("evidence", Evidence::evidence);
    private static final String WHY = "no price, gr\u00fc\u00dfe";

    private static Map<String, Object> info() {
        var info = new LinkedHashMap<>(Messages.simple());
        info.put("null", null);
        info.put("list", List.of(1L, "two", List.of(3)));
        info.put("map", Map.of("a", 1));
        info.put("array", new int[] {1, 2});
        info.put("symbols", new Symbol[] {Symbol.valueOf("a"), Symbol.valueOf("b")});
        info.put("described", new UnknownDescribedType(Symbol.valueOf("app:thing"), "value"));
        return info;
    }

    /** A receiver that asks for all that is known of each death. */
    private static Receiver full(Scene scene, String queue, String name) throws Exception {
        Map<String, Object> full = Map.of("x-opt-death-evidence", Symbol.valueOf("full"));
        return scene.receiver(queue, Scene.options(1).linkName(name).properties(full));
    }

    private static Object of(Map<?, ?> entry, String key) {
        return entry.get(Symbol.valueOf(key));
    }

    private static void error(Map<?, ?> entry, String condition, String description) {
        equal("condition", of(entry, "error-condition"), Symbol.valueOf(condition));
        equal("description", of(entry, "error-description"), description);
    }

    private static void infoIsIn(Map<?, ?> entry) {
        var observed = (Map<?, ?>) of(entry, "error-info");
        var sent = info();
        equal("values of the info", observed.size(), sent.size());
        for (var one : sent.entrySet()) {
            that("no " + one.getKey(), observed.containsKey(Symbol.valueOf(one.getKey())));
            equal(one.getKey(), of(observed, one.getKey()), Messages.asRead(one.getValue()));
        }
    }

    private static void lastDeath(Message<?> letter, String condition, String description) throws Exception {
        equal("condition", letter.annotation("x-opt-last-death-condition"), Symbol.valueOf(condition));
        equal("description", letter.annotation("x-opt-last-death-description"), description);
    }

    private static void evidence(Scene scene) throws Exception {
        String last = scene.queue("-last");
        String dead = scene.queue("-dead", History.to(last));
        String queue = scene.queue("", History.to(dead));
        scene.publish(queue, Message.create("order").durable(true));
        var first = new Culprit("rejected", scene.client.containerId(), "first-consumer", scene.setting.user());
        Scene.receive(full(scene, queue, first.link()))
                .disposition(DeliveryState.rejected("app:schema", WHY, info()), true);
        until("it is not dead-lettered", () -> scene.count(dead) == 1);
        // What is confirmed now makes all before it safe, the rejection too.
        scene.publish(scene.queue("-safe"), Message.create("safe").durable(true));
        Runner.restartBroker();
        scene.again();

        var delivery = Scene.receive(full(scene, dead, "second-consumer"));
        Message<?> letter = delivery.message();
        lastDeath(letter, "app:schema", WHY);
        first.check(letter.annotation("x-opt-last-death-by"), Symbol::valueOf);
        var entries = (Map<?, ?>[]) letter.annotation("x-opt-deaths");
        equal("entries", entries.length, 1);
        error(entries[0], "app:schema", WHY);
        infoIsIn(entries[0]);
        delivery.disposition(DeliveryState.modified(false, true, Map.of(
                "x-opt-dead-letter-category", "app:again", "x-opt-dead-letter-reason", "once more")), true);

        letter = Scene.receive(full(scene, last, "third-consumer")).message();
        lastDeath(letter, "app:again", "once more");
        entries = (Map<?, ?>[]) letter.annotation("x-opt-deaths");
        equal("entries", entries.length, 2);
        error(entries[0], "app:again", "once more");
        equal("an info of the second death", of(entries[0], "error-info"), null);
        new Culprit("undeliverable-here", scene.client.containerId(), "second-consumer", scene.setting.user())
                .check(of(entries[0], "by"), Symbol::valueOf);
        error(entries[1], "app:schema", WHY);
        infoIsIn(entries[1]);
        first.check(of(entries[1], "by"), Symbol::valueOf);
    }

    private Evidence() {}
}
