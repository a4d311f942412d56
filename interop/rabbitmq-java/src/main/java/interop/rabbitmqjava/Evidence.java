package interop.rabbitmqjava;

import static interop.Check.equal;
import static interop.Check.that;
import static interop.Check.until;

import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.qpid.protonj2.types.Symbol;
import interop.History;
import interop.Runner;
import interop.Runner.Scenario;
import java.util.Map;

/**
 * What a consumer says when it discards stays with the dead letter. The client sends no error with
 * `rejected` and sets no properties of links: it says why by annotations, and gets the condition and the
 * description.
 */
final class Evidence {
    static final Map<String, Scenario<Scene>> SCENARIOS = Map.of("evidence", Evidence::evidence);

    private static void discard(Consumer.Context context, String condition, String description) {
        context.discard(Map.of("x-opt-dead-letter-category", condition, "x-opt-dead-letter-reason", description));
    }

    private static void lastDeath(Message letter, String condition, String description) {
        equal("condition", letter.annotation("x-opt-last-death-condition"), Symbol.valueOf(condition));
        equal("description", letter.annotation("x-opt-last-death-description"), description);
    }

    private static void evidence(Scene scene) throws Exception {
        String end = scene.queue("-end");
        String last = scene.queue("-last", History.to(end));
        String dead = scene.queue("-dead", History.to(last));
        String queue = scene.queue("", History.to(dead));
        scene.publish(queue, "order");
        discard(scene.inbox(queue).take().context(), "app:schema", "no price, gr\u00fc\u00dfe");
        until("it is not dead-lettered", () -> scene.count(dead) == 1);
        // What is confirmed now makes all before it safe, the rejection too.
        scene.publish(scene.queue("-safe"), "safe");
        Runner.restartBroker();
        until("the connection does not recover", scene::recovered);

        var letter = scene.inbox(dead).take();
        lastDeath(letter.message(), "app:schema", "no price, gr\u00fc\u00dfe");
        discard(letter.context(), "app:again", "once more");
        letter = scene.inbox(last).take();
        lastDeath(letter.message(), "app:again", "once more");
        equal("entries", ((Map<?, ?>[]) letter.message().annotation("x-opt-deaths")).length, 2);
        // A death without a reason leaves none of an older one.
        letter.context().discard();
        var message = scene.inbox(end).take().message();
        that("a stale condition", !message.hasAnnotation("x-opt-last-death-condition"));
        that("a stale description", !message.hasAnnotation("x-opt-last-death-description"));
    }

    private Evidence() {}
}
