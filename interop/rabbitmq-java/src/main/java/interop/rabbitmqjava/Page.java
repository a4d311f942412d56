package interop.rabbitmqjava;

import static interop.Check.equal;

import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import com.rabbitmq.qpid.protonj2.types.Symbol;
import interop.Check;
import interop.Snippets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The snippets of docs/clients/rabbitmq-java.md. */
final class Page {
    static void run(Scene scene) throws Exception {
        Snippets.areIn(Page.class, "rabbitmq-java");
        String dead = scene.queue("-dead");
        String queue = scene.queue("");
        scene.delete(queue);
        try (var environment = new AmqpEnvironmentBuilder().build()) {
            var connection = connect(environment, scene.setting.host(), scene.setting.amqp());
            declare(connection, queue, dead);
            publish(connection, queue);
            reject(connection, queue);
            Check.until("it is not dead-lettered", () -> scene.count(dead) == 1);
            equal("history", history(connection, dead), queue + " rejected 1 times; ");
        }
    }

    // connect
    static Connection connect(Environment environment, String host, int port) {
        return environment.connectionBuilder().host(host).port(port)
                .username("guest").password("guest").build();
    }

    // declare
    static void declare(Connection connection, String queue, String dead) {
        connection.management().queue(queue).type(Management.QueueType.CLASSIC)
                .deadLetterExchange("").deadLetterRoutingKey(dead).declare();
    }

    // publish
    static void publish(Connection connection, String queue) throws Exception {
        try (var publisher = connection.publisherBuilder().queue(queue).build()) {
            var status = new CompletableFuture<Publisher.Status>();
            publisher.publish(publisher.message("hello".getBytes()),
                    context -> status.complete(context.status()));
            status.get(10, TimeUnit.SECONDS); // ACCEPTED, REJECTED or RELEASED
        }
    }

    // reject
    static void reject(Connection connection, String queue) throws Exception {
        var done = new CompletableFuture<Void>();
        try (var consumer = connection.consumerBuilder().queue(queue)
                .messageHandler((context, message) -> {
                    context.discard(); // or accept, requeue
                    done.complete(null);
                }).build()) {
            done.get(10, TimeUnit.SECONDS);
        }
    }

    // history
    static String history(Connection connection, String dead) throws Exception {
        var received = new CompletableFuture<Message>();
        var text = new StringBuilder();
        try (var consumer = connection.consumerBuilder().queue(dead)
                .messageHandler((context, message) -> {
                    context.accept();
                    received.complete(message);
                }).build()) {
            var message = received.get(10, TimeUnit.SECONDS);
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
