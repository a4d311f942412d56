package interop.rabbitmqjava;

import static interop.Check.TIMEOUT_MS;
import static interop.Check.equal;
import static interop.Check.that;

import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.BackOffDelayPolicy;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.ConnectionBuilder;
import com.rabbitmq.client.amqp.ConnectionSettings;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import interop.Setting;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The setting, one connection with its management, and the queues of one scenario. */
final class Scene implements AutoCloseable {
    private static final Duration RETRY = Duration.ofMillis(100);

    final Setting setting;
    final String prefix;
    final Connection connection;
    final Management management;
    private final Environment environment = new AmqpEnvironmentBuilder().build();
    private final List<String> queues = new ArrayList<>();

    Scene(Setting setting, String name) {
        this.setting = setting;
        prefix = setting.prefix() + name;
        connection = builder().recovery().backOffDelayPolicy(BackOffDelayPolicy.fixed(RETRY))
                .connectionBuilder().build();
        management = connection.management();
    }

    @Override
    public void close() {
        queues.forEach(this::delete);
        environment.close();
    }

    /** The connection of the scene works, after a restart too. */
    boolean recovered() {
        try {
            management.queue(prefix + "-recovered").exclusive(true).declare();
            // Management may work again while the connection is not yet done with the rest.
            publisher(prefix + "-recovered").close();
            return true;
        } catch (AmqpException notYet) {
            return false;
        }
    }

    ConnectionBuilder builder() {
        return environment.connectionBuilder().host(setting.host()).port(setting.amqp())
                .saslMechanism(ConnectionSettings.SASL_MECHANISM_PLAIN)
                .username(setting.user()).password(setting.password());
    }

    void delete(String queue) {
        try {
            management.queueDelete(queue);
        } catch (AmqpException.AmqpEntityDoesNotExistException gone) {
            return; // as it should be
        }
    }

    String queue(String suffix) {
        return queue(suffix, Map.of());
    }

    /** Declares a classic queue that was not there; its arguments by their names. */
    String queue(String suffix, Map<String, Object> arguments) {
        String name = prefix + suffix;
        var specification = management.queue(name).type(Management.QueueType.CLASSIC);
        arguments.forEach(specification::argument);
        return declared(name, specification);
    }

    String declared(String name, Management.QueueSpecification specification) {
        delete(name);
        specification.declare();
        queues.add(name);
        return name;
    }

    long count(String queue) {
        return management.queueInfo(queue).messageCount();
    }

    Publisher publisher(String queue) {
        return connection.publisherBuilder().queue(queue).build();
    }

    Inbox inbox(String queue) {
        return new Inbox(connection, queue);
    }

    static Publisher.Context outcome(Publisher publisher, Message message) throws Exception {
        var done = new CompletableFuture<Publisher.Context>();
        publisher.publish(message, done::complete);
        return done.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
    }

    static void accepted(Publisher publisher, Message message) throws Exception {
        equal("outcome", outcome(publisher, message).status(), Publisher.Status.ACCEPTED);
    }

    void publish(String queue, String... texts) throws Exception {
        try (var publisher = publisher(queue)) {
            for (String text : texts) {
                accepted(publisher, publisher.message(text.getBytes()));
            }
        }
    }

    /** The broker refuses what is attempted, and tells this. */
    static void refused(String told, Callable<?> attempt) {
        try {
            attempt.call();
        } catch (Exception thrown) {
            String text = thrown + " " + thrown.getCause();
            that(told + " in " + text, text.contains(told));
            return;
        }
        throw new AssertionError("not refused with " + told);
    }
}
