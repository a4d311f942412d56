package interop.qpidjms;

import interop.Check;
import interop.Management;
import interop.Runner.Scenario;
import interop.Skip;
import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.ConnectionOptions;

/** SASL, TLS, vhosts, frames. */
final class Connections {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("plain", Connections::plain);
        SCENARIOS.put("anonymous", Connections::anonymous);
        SCENARIOS.put("scram", Connections::scram);
        SCENARIOS.put("tls", Connections::tls);
        SCENARIOS.put("external", Connections::external);
        SCENARIOS.put("no-sasl", Connections::noSasl);
        SCENARIOS.put("vhost", Connections::vhost);
        SCENARIOS.put("frames", Connections::frames);
        SCENARIOS.put("declare", Connections::declare);
    }

    private static void login(Scene scene, String mechanism) throws Exception {
        String url = scene.url() + "?amqp.saslMechanisms=" + mechanism;
        String user = scene.setting.user();
        Scene.refused("failed to authenticate", () -> scene.connect(url, user, "wrong", null));
        scene.connect(url, user, scene.setting.password(), null);
    }

    private static void plain(Scene scene) throws Exception {
        login(scene, "PLAIN");
    }

    private static void scram(Scene scene) throws Exception {
        login(scene, "SCRAM-SHA-256");
        login(scene, "SCRAM-SHA-512");
    }

    /** Publishes on one connection and receives on that of the scene. */
    private static void through(Scene scene, Connection connection) throws Exception {
        String queue = scene.queue("");
        var session = Scene.session(connection);
        session.createProducer(scene.destination(queue)).send(session.createTextMessage("through"));
        Scene.textIs("through", scene.consumer(queue));
    }

    private static void anonymous(Scene scene) throws Exception {
        String url = scene.url() + "?amqp.saslMechanisms=ANONYMOUS";
        through(scene, scene.connect(url, null, null, null));
    }

    private static String secure(Scene scene) {
        return "amqps://localhost:" + scene.setting.amqps();
    }

    private static void tls(Scene scene) throws Exception {
        String url = secure(scene) + "?amqp.saslMechanisms=PLAIN";
        scene.connect(url, scene.setting.user(), scene.setting.password(), scene.setting.tls());
    }

    private static void external(Scene scene) throws Exception {
        String url = secure(scene) + "?amqp.saslMechanisms=EXTERNAL";
        scene.connect(url, null, null, scene.setting.tlsWithCertificate());
    }

    private static void noSasl(Scene scene) throws Exception {
        String url = "amqp://" + scene.setting.host() + ":" + scene.setting.bare();
        through(scene, scene.connect(url + "?amqp.saslLayer=false", null, null, null));
    }

    private static void vhost(Scene scene) throws Exception {
        String address = "/queues/" + scene.prefix;
        String vhost = "vhost:" + scene.setting.vhost();
        try (var client = Client.create()) {
            var management = new Management(client.connect(scene.setting.host(), scene.setting.amqp(),
                    new ConnectionOptions().virtualHost(vhost).user(scene.setting.user())
                            .password(scene.setting.password())));
            management.ask("PUT", address, Map.of(), 201, 200);
            Scene.refused("amqp:not-found", () -> scene.consumer(scene.prefix));
            var other = Scene.session(scene.connect("?amqp.vhost=" + vhost));
            other.createConsumer(other.createQueue(address)).close();
            management.ask("DELETE", address, null, 200);
        }
        Scene.refused("amqp:not-found", () -> scene.connect("?amqp.vhost=vhost:interop-missing"));
    }

    private static void frames(Scene scene) throws Exception {
        var session = Scene.session(scene.connect("?amqp.maxFrameSize=512"));
        byte[] body = "frames ".repeat(3_000).getBytes();
        var destination = scene.destination(scene.queue(""));
        var message = session.createBytesMessage();
        message.writeBytes(body);
        session.createProducer(destination).send(message);
        var received = Scene.receive(session.createConsumer(destination));
        Check.equal("body", ((BytesMessage) received).getBody(byte[].class), body);
    }

    private static void declare(Scene scene) {
        throw new Skip(interop.qpidjms.Client.VERSION + " cannot give a link properties: no /management");
    }

    private Connections() {}
}
