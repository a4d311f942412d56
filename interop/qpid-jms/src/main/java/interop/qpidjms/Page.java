package interop.qpidjms;

import static interop.Check.equal;

import interop.History;
import interop.Snippets;
import jakarta.jms.Connection;
import jakarta.jms.Session;
import java.util.Map;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.message.JmsMessage;
import org.apache.qpid.proton.amqp.Symbol;

/** The snippets of docs/clients/qpid-jms.md. */
final class Page {
    static void run(Scene scene) throws Exception {
        Snippets.areIn(Page.class, "qpid-jms");
        String dead = scene.queue("-dead");
        String queue = scene.queue("", History.to(dead));
        var connection = connect(scene.url());
        publish(connection, queue);
        reject(connection, queue);
        equal("history", history(connection, dead), queue + " rejected 1 times; ");
        connection.close();
    }

    // connect
    static Connection connect(String url) throws Exception { // amqp://localhost:5672
        var factory = new JmsConnectionFactory("guest", "guest", url + "?amqp.saslMechanisms=PLAIN");
        var connection = factory.createConnection();
        connection.start();
        return connection;
    }

    // publish
    static void publish(Connection connection, String queue) throws Exception {
        try (var session = connection.createSession(Session.AUTO_ACKNOWLEDGE)) {
            var producer = session.createProducer(session.createQueue("/queues/" + queue));
            producer.send(session.createTextMessage("hello")); // returns when it is accepted
        }
    }

    // reject
    static void reject(Connection connection, String queue) throws Exception {
        try (var session = connection.createSession(Session.CLIENT_ACKNOWLEDGE)) {
            var consumer = session.createConsumer(session.createQueue("/queues/" + queue));
            var message = consumer.receive(10_000);
            // 1 accepted, 2 rejected, 3 released, 4 modified (failed), 5 modified (undeliverable)
            message.setIntProperty("JMS_AMQP_ACK_TYPE", 2);
            message.acknowledge();
        }
    }

    // history
    static String history(Connection connection, String dead) throws Exception {
        var text = new StringBuilder();
        try (var session = connection.createSession(Session.AUTO_ACKNOWLEDGE)) {
            var consumer = session.createConsumer(session.createQueue("/queues/" + dead));
            var message = (JmsMessage) consumer.receive(10_000);
            // the newest death first
            for (var one : (Object[]) message.getFacade().getTracingAnnotation("x-opt-deaths")) {
                var death = (Map<?, ?>) one;
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
