package interop.protonj2;

import static interop.Check.equal;

import interop.Snippets;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.AdvancedMessage;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.DeliveryMode;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.SenderOptions;
import org.apache.qpid.protonj2.types.Symbol;
import org.apache.qpid.protonj2.types.messaging.AmqpValue;

/** The snippets of docs/clients/protonj2.md. */
final class Page {
    static void run(Scene scene) throws Exception {
        Snippets.areIn(Page.class, "protonj2");
        String dead = scene.queue("-dead");
        String queue = scene.queue("");
        scene.management.ask("DELETE", "/queues/" + queue, null, 200);
        var connection = connect(scene.setting.host(), scene.setting.amqp());
        equal("declared", declare(connection, queue, dead), "201");
        publish(connection, queue);
        reject(connection, queue);
        equal("history", history(connection, dead), queue + " rejected 1 times; ");
        connection.close();
    }

    // connect
    static Connection connect(String host, int port) throws Exception {
        var options = new ConnectionOptions().user("guest").password("guest");
        options.saslOptions().addAllowedMechanism("PLAIN");
        return Client.create().connect(host, port, options);
    }

    // declare
    static String declare(Connection connection, String queue, String dead) throws Exception {
        Map<String, Object> paired = Map.of("paired", true);
        var session = connection.openSession();
        var requests = session.openSender("/management", new SenderOptions()
                .linkName("management").deliveryMode(DeliveryMode.AT_MOST_ONCE).properties(paired));
        var answers = session.openReceiver("/management", new ReceiverOptions()
                .linkName("management").deliveryMode(DeliveryMode.AT_MOST_ONCE).properties(paired));
        answers.openFuture().get();

        AdvancedMessage<Object> request = AdvancedMessage.create();
        request.messageId("request").subject("PUT").to("/queues/" + queue).replyTo("$me");
        request.addBodySection(new AmqpValue<>(Map.of("arguments", Map.of(
                "x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead))));
        requests.send(request);
        String code = answers.receive(10, TimeUnit.SECONDS).message().subject();
        session.close();
        return code; // 201: it is new, 200: it was there, 409: it was there and differs
    }

    // publish
    static void publish(Connection connection, String queue) throws Exception {
        try (var sender = connection.openSender("/queues/" + queue)) {
            sender.send(Message.create("hello").durable(true)).awaitAccepted(10, TimeUnit.SECONDS);
        }
    }

    // reject
    static void reject(Connection connection, String queue) throws Exception {
        var options = new ReceiverOptions().autoAccept(false).creditWindow(10);
        try (var receiver = connection.openReceiver("/queues/" + queue, options)) {
            var delivery = receiver.receive(10, TimeUnit.SECONDS);
            delivery.reject("app:bad", "cannot be read"); // or accept, release, modified
        }
    }

    // history
    static String history(Connection connection, String dead) throws Exception {
        var text = new StringBuilder();
        try (var receiver = connection.openReceiver("/queues/" + dead)) {
            var message = receiver.receive(10, TimeUnit.SECONDS).message();
            // the newest death first
            for (var death : (Map<?, ?>[]) message.annotation("x-opt-deaths")) {
                text.append(death.get(Symbol.valueOf("queue"))).append(' ')
                        .append(death.get(Symbol.valueOf("reason"))).append(' ')
                        .append(death.get(Symbol.valueOf("count"))).append(" times; ");
            }
        }
        return text.toString();
    }
    // end

    private Page() {}
}
