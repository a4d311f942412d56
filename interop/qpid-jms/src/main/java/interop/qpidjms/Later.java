package interop.qpidjms;

import static interop.Check.equal;
import static interop.Check.that;

import interop.Runner.Scenario;
import jakarta.jms.TextMessage;
import java.util.Map;

/** Messages that the producer wants to be delivered later. */
final class Later {
    static final Map<String, Scenario<Scene>> SCENARIOS = Map.of("later", Later::later);

    private static final long DELAY_MS = 3_000;
    private static final long LATE_MS_MAX = 100;

    private static void later(Scene scene) throws Exception {
        String queue = scene.queue("");
        var consumer = scene.consumer(queue);
        long due;
        try (var producer = scene.session.createProducer(scene.destination(queue))) {
            producer.setDeliveryDelay(DELAY_MS);
            // The client computes the instant; the broker has accepted the message when this returns.
            due = System.currentTimeMillis() + DELAY_MS;
            producer.send(scene.session.createTextMessage("later"));
        }
        that("it is accepted at once", System.currentTimeMillis() < due - DELAY_MS / 2);
        scene.publish(queue, "now");
        Scene.textIs("now", consumer);
        var message = Scene.receive(consumer);
        long late = System.currentTimeMillis() - due;
        that("it comes in time, not " + late + " ms late", late >= 0 && late <= LATE_MS_MAX);
        equal("text", ((TextMessage) message).getText(), "later");
        long told = message.getJMSDeliveryTime() - due;
        that("its delivery time is told, not " + told, told >= 0 && told <= LATE_MS_MAX);
        Scene.settle(message, Scene.ACCEPTED);
    }

    private Later() {}
}
