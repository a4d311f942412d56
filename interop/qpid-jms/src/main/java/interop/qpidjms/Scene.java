package interop.qpidjms;

import static interop.Check.TIMEOUT_MS;
import static interop.Check.equal;
import static interop.Check.that;

import interop.Management;
import interop.Setting;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import javax.net.ssl.SSLContext;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.message.JmsMessage;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.types.UnsignedLong;

/** The setting, one JMS connection with a session, management, and the queues of one scenario. */
final class Scene implements AutoCloseable {
    /** A session in which each message is settled on its own; an extension of Qpid JMS. */
    static final int INDIVIDUAL_ACKNOWLEDGE = 101;
    /** What the property JMS_AMQP_ACK_TYPE can be. */
    static final int ACCEPTED = 1;
    static final int REJECTED = 2;
    static final int RELEASED = 3;
    static final int MODIFIED_FAILED = 4;
    static final int MODIFIED_FAILED_UNDELIVERABLE = 5;

    private static final String PULL = "?jms.prefetchPolicy.all=0";
    private static final long NOTHING_MS = 300;

    final Setting setting;
    final String prefix;
    final Connection connection;
    final Session session;
    Management management;
    org.apache.qpid.protonj2.client.Connection managed;
    private final Client managing = Client.create();
    private final List<String> queues = new ArrayList<>();
    private final List<Connection> connections = new ArrayList<>();

    Scene(Setting setting, String name) throws Exception {
        this.setting = setting;
        prefix = setting.prefix() + name;
        connection = connect(PULL);
        session = session(connection);
        openManagement();
    }

    /** Opens it, anew after a restart. */
    void openManagement() throws Exception {
        var options = new ConnectionOptions().user(setting.user()).password(setting.password());
        managed = managing.connect(setting.host(), setting.amqp(), options);
        management = new Management(managed);
    }

    @Override
    public void close() throws Exception {
        for (var one : connections) {
            one.close();
        }
        for (String queue : queues) {
            management.ask("DELETE", "/queues/" + queue, null);
        }
        managing.close();
    }

    String url() {
        return "amqp://" + setting.host() + ":" + setting.amqp();
    }

    Connection connect(String options) throws JMSException {
        return connect(url() + options, setting.user(), setting.password(), null);
    }

    /** A started connection; without a user where that is null. */
    Connection connect(String url, String user, String password, SSLContext tls)
            throws JMSException {
        var factory = new JmsConnectionFactory(user, password, url);
        factory.setSslContext(tls);
        factory.setConnectTimeout(TIMEOUT_MS);
        factory.setSendTimeout(TIMEOUT_MS);
        factory.setRequestTimeout(TIMEOUT_MS);
        var opened = factory.createConnection();
        connections.add(opened);
        opened.start();
        return opened;
    }

    static Session session(Connection connection) throws JMSException {
        return connection.createSession(false, INDIVIDUAL_ACKNOWLEDGE);
    }

    String queue(String suffix, Map<String, Object> arguments) throws Exception {
        String name = prefix + suffix;
        management.ask("DELETE", "/queues/" + name, null);
        management.ask("PUT", "/queues/" + name, Map.of("arguments", arguments), 201);
        queues.add(name);
        return name;
    }

    String queue(String suffix) throws Exception {
        return queue(suffix, Map.of());
    }

    long count(String queue) throws Exception {
        var answer = management.askMap("GET", "/queues/" + queue, null, 200);
        return ((UnsignedLong) answer.get("message_count")).longValue();
    }

    Queue destination(String queue) throws JMSException {
        return session.createQueue("/queues/" + queue);
    }

    MessageConsumer consumer(String queue) throws JMSException {
        return session.createConsumer(destination(queue));
    }

    /** Sends durable messages; returns when the broker has accepted them. */
    void publish(String queue, Message... messages) throws JMSException {
        try (var producer = session.createProducer(destination(queue))) {
            for (var message : messages) {
                producer.send(message);
            }
        }
    }

    void publish(String queue, String... texts) throws JMSException {
        for (String text : texts) {
            publish(queue, session.createTextMessage(text));
        }
    }

    static Message receive(MessageConsumer consumer) throws JMSException {
        var message = consumer.receive(TIMEOUT_MS);
        that("nothing comes", message != null);
        return message;
    }

    static void nothing(MessageConsumer consumer) throws JMSException {
        that("an unexpected message", consumer.receive(NOTHING_MS) == null);
    }

    static void textIs(String expected, MessageConsumer consumer) throws JMSException {
        var message = receive(consumer);
        equal("text", ((TextMessage) message).getText(), expected);
        settle(message, ACCEPTED);
    }

    /** Settles one message of a session with {@link #INDIVIDUAL_ACKNOWLEDGE}. */
    static void settle(Message message, int outcome) throws JMSException {
        message.setIntProperty("JMS_AMQP_ACK_TYPE", outcome);
        message.acknowledge();
    }

    /** A message annotation. JMS has none: Qpid JMS gives them to tracers, through this method. */
    static Object annotation(Message message, String name) {
        return ((JmsMessage) message).getFacade().getTracingAnnotation(name);
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
