package interop.qpidjms;

import static interop.Check.equal;
import static interop.Check.that;

import interop.Runner;
import interop.Runner.Scenario;
import jakarta.jms.Connection;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Publish and subscribe, as JMS has it. */
final class Topics {
    static final Map<String, Scenario<Scene>> SCENARIOS = Map.of("topics", Topics::topics);

    private static void topics(Scene scene) throws Exception {
        plain(scene);
        clientIds(scene);
        durable(scene);
        restarted(scene);
        shared(scene);
        temporary(scene);
    }

    private static Connection client(Scene scene, String id) throws JMSException {
        return scene.connect("?jms.clientID=" + scene.prefix + id);
    }

    /** Sends to a topic: that nobody wants it is no failure. */
    private static void send(Session session, Topic topic, String... texts) throws JMSException {
        try (var producer = session.createProducer(topic)) {
            for (String text : texts) {
                var message = session.createTextMessage(text);
                message.setStringProperty("colour", text);
                producer.send(message);
            }
        }
    }

    private static void plain(Scene scene) throws Exception {
        var topic = scene.session.createTopic(scene.prefix + ".plain");
        send(scene.session, topic, "nobody hears it");
        var all = scene.session.createConsumer(topic);
        var red = scene.session.createConsumer(topic, "colour = 'red'");
        var others = scene.session.createConsumer(topic, null, true);
        var some = scene.session.createConsumer(scene.session.createTopic(scene.prefix + ".*"));
        send(scene.session, topic, "red", "blue");
        var anonymous = scene.session.createProducer(null);
        anonymous.send(topic, scene.session.createTextMessage("to any address"));
        for (var consumer : new MessageConsumer[] {all, some}) {
            Scene.textIs("red", consumer);
            Scene.textIs("blue", consumer);
            Scene.textIs("to any address", consumer);
        }
        Scene.textIs("red", red);
        Scene.nothing(red);
        Scene.nothing(others);
        var other = Scene.session(scene.connect(""));
        send(other, topic, "of another connection");
        Scene.textIs("of another connection", others);
        for (var consumer : new MessageConsumer[] {all, red, others, some}) {
            consumer.close();
        }
        var exchange = scene.session.createTopic("/exchanges/amq.topic/" + scene.prefix + ".plain");
        var named = scene.session.createConsumer(exchange);
        send(scene.session, topic, "by the address of its exchange");
        Scene.textIs("by the address of its exchange", named);
        named.close();
    }

    private static void clientIds(Scene scene) throws Exception {
        var first = client(scene, "id");
        try {
            client(scene, "id");
        } catch (InvalidClientIDException expected) {
            first.close();
            client(scene, "id").close();
            return;
        }
        throw new AssertionError("two connections have the same client id");
    }

    private static void durable(Scene scene) throws Exception {
        String name = "kept 1.0/é";
        var topic = scene.session.createTopic(scene.prefix + ".durable");
        var connection = client(scene, "durable");
        Scene.session(connection).createDurableConsumer(topic, name);
        connection.close();
        send(scene.session, topic, "red", "blue");

        connection = client(scene, "durable");
        var session = Scene.session(connection);
        var consumer = session.createDurableConsumer(topic, name);
        Scene.textIs("red", consumer);
        Scene.textIs("blue", consumer);
        Scene.refused("active durable subscription", () -> unsubscribe(session, name));
        consumer.close();
        send(scene.session, topic, "red");
        var selecting = session.createDurableConsumer(topic, name, "colour = 'blue'", false);
        send(scene.session, topic, "red", "blue");
        Scene.textIs("blue", selecting);
        Scene.nothing(selecting); // another selector: it was made anew
        selecting.close();
        session.unsubscribe(name);
        try {
            session.unsubscribe(name);
        } catch (InvalidDestinationException expected) {
            send(scene.session, topic, "blue");
            Scene.nothing(session.createDurableConsumer(topic, name));
            connection.close();
            unsubscribed(scene, "durable", name);
            return;
        }
        throw new AssertionError("unsubscribed twice");
    }

    private static Object unsubscribe(Session session, String name) throws JMSException {
        session.unsubscribe(name);
        return null;
    }

    private static void unsubscribed(Scene scene, String id, String name) throws Exception {
        var connection = client(scene, id);
        Scene.session(connection).unsubscribe(name);
        connection.close();
    }

    /** A subscription, its selector and its messages are there after a restart. */
    private static void restarted(Scene scene) throws Exception {
        String name = "kept";
        var connection = client(scene, "restarted");
        var topic = scene.session.createTopic(scene.prefix + ".restarted");
        Scene.session(connection).createDurableConsumer(topic, name, "colour = 'red'", false);
        connection.close();
        send(scene.session, topic, "red", "blue");
        Runner.restartBroker();
        scene.openManagement();
        var again = Scene.session(scene.connect(""));
        send(again, topic, "blue", "red");
        connection = client(scene, "restarted");
        var consumer = Scene.session(connection)
                .createDurableConsumer(topic, name, "colour = 'red'", false);
        Scene.textIs("red", consumer);
        Scene.textIs("red", consumer);
        Scene.nothing(consumer);
        connection.close();
        unsubscribed(scene, "restarted", name);
    }

    /** Each message goes to one of the consumers of a shared subscription. */
    private static void shared(Scene scene) throws Exception {
        // The scene's own connection is lost: the broker was restarted.
        var sending = Scene.session(scene.connect(""));
        var topic = sending.createTopic(scene.prefix + ".shared");
        String one = "?jms.prefetchPolicy.all=1";
        for (String id : new String[] {"", "&jms.clientID=" + scene.prefix + "shared"}) {
            // With a client id the consumers are of one connection.
            var first = scene.connect(one + id);
            var second = id.isEmpty() ? scene.connect(one) : first;
            var sessions = new Session[] {Scene.session(first), Scene.session(second)};
            var volatiles = new MessageConsumer[2];
            var durables = new MessageConsumer[2];
            for (int index = 0; index < 2; index++) {
                volatiles[index] = sessions[index].createSharedConsumer(topic, "shared");
                durables[index] = sessions[index].createSharedDurableConsumer(topic, "shared");
            }
            send(sending, topic, "0", "1");
            divided(volatiles);
            divided(durables);
            for (int index = 0; index < 2; index++) {
                volatiles[index].close();
                durables[index].close();
            }
            send(sending, topic, "2");
            Scene.nothing(sessions[0].createSharedConsumer(topic, "shared"));
            var durable = sessions[0].createSharedDurableConsumer(topic, "shared");
            Scene.textIs("2", durable);
            durable.close();
            sessions[0].unsubscribe("shared");
            first.close();
            second.close();
        }
    }

    private static void divided(MessageConsumer[] consumers) throws Exception {
        Set<String> texts = new HashSet<>();
        for (var consumer : consumers) {
            var message = Scene.receive(consumer);
            texts.add(((TextMessage) message).getText());
            Scene.settle(message, Scene.ACCEPTED);
        }
        equal("texts", texts, Set.of("0", "1"));
        for (var consumer : consumers) {
            Scene.nothing(consumer);
        }
    }

    private static void temporary(Scene scene) throws Exception {
        var connection = scene.connect("");
        var session = Scene.session(connection);
        var topic = session.createTemporaryTopic();
        var consumers = new MessageConsumer[] {session.createConsumer(topic), session.createConsumer(topic)};
        var other = Scene.session(scene.connect(""));
        send(other, other.createTopic(topic.getTopicName()), "answer");
        for (var consumer : consumers) {
            Scene.textIs("answer", consumer);
            consumer.close();
        }
        send(session, topic, "nobody hears it");
        String gone = topic.getTopicName();
        that("its address " + gone, gone.startsWith("/exchanges/amq.gen-"));
        connection.close();
        Scene.refused("amqp:not-found", () -> other.createProducer(other.createTopic(gone)));
    }

    private Topics() {}
}
