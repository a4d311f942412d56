package interop.protonj2;

import static interop.Check.equal;
import static interop.Check.that;

import interop.Management;
import interop.Runner.Scenario;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.exceptions.ClientConnectionSecuritySaslException;
import org.apache.qpid.protonj2.types.UnsignedLong;

/** SASL, TLS, vhosts, frames, management. */
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

    private static void refusedLogin(Scene scene, String mechanism) throws Exception {
        try {
            scene.connect(Scene.login(mechanism, scene.setting.user(), "wrong"));
        } catch (ExecutionException refused) {
            that("an authentication failure: " + refused,
                    refused.getCause() instanceof ClientConnectionSecuritySaslException);
            return;
        }
        throw new AssertionError("a wrong password was taken");
    }

    private static void plain(Scene scene) throws Exception {
        refusedLogin(scene, "PLAIN");
        scene.connect(scene.plain());
    }

    /** Publishes on one connection and receives on that of the scene. */
    private static void through(Scene scene, Connection connection) throws Exception {
        String queue = scene.queue("");
        var sender = Scene.opened(connection.openSender("/queues/" + queue));
        that("accepted", Scene.outcome(sender, Message.create("through")).isAccepted());
        Scene.bodyIs("through", scene.receiver(queue));
    }

    private static void anonymous(Scene scene) throws Exception {
        var options = new ConnectionOptions();
        options.saslOptions().addAllowedMechanism("ANONYMOUS");
        through(scene, scene.connect(options));
    }

    private static void scram(Scene scene) throws Exception {
        for (String mechanism : List.of("SCRAM-SHA-256", "SCRAM-SHA-512")) {
            scene.connect(Scene.login(mechanism, scene.setting.user(), scene.setting.password()));
            refusedLogin(scene, mechanism);
        }
    }

    private static void tls(Scene scene) throws Exception {
        var options = scene.plain().sslEnabled(true);
        options.sslOptions().sslContextOverride(scene.setting.tls());
        scene.connect("localhost", scene.setting.amqps(), options);
    }

    private static void external(Scene scene) throws Exception {
        var options = new ConnectionOptions().sslEnabled(true);
        options.saslOptions().addAllowedMechanism("EXTERNAL");
        options.sslOptions().sslContextOverride(scene.setting.tlsWithCertificate());
        scene.connect("localhost", scene.setting.amqps(), options);
    }

    private static void noSasl(Scene scene) throws Exception {
        var options = new ConnectionOptions();
        options.saslOptions().saslEnabled(false);
        through(scene, scene.connect(scene.setting.host(), scene.setting.bare(), options));
    }

    private static void vhost(Scene scene) throws Exception {
        var other = scene.connect(scene.plain().virtualHost("vhost:" + scene.setting.vhost()));
        var management = new Management(other);
        String name = scene.prefix;
        management.ask("PUT", "/queues/" + name, Map.of(), 201, 200);
        Scene.refused("amqp:not-found", () -> scene.receiver(name));
        Scene.opened(other.openReceiver("/queues/" + name)).close();
        management.ask("DELETE", "/queues/" + name, null, 200);
        // The broker opens before it closes: the error may meet the session instead.
        Scene.refused("amqp:not-found", () -> scene
                .connect(scene.plain().virtualHost("vhost:interop-missing")).openSession()
                .openFuture().get());
    }

    private static void frames(Scene scene) throws Exception {
        String queue = scene.queue("");
        var connection = scene.connect(scene.plain().maxFrameSize(512));
        byte[] body = Messages.bytes(20_000);
        var sender = Scene.opened(connection.openSender("/queues/" + queue));
        that("accepted", Scene.outcome(sender, Message.create(body)).isAccepted());
        var receiver = connection.openReceiver("/queues/" + queue, Scene.options(1));
        Scene.bodyIs(body, receiver);
    }

    private static void declare(Scene scene) throws Exception {
        var management = scene.management;
        String name = scene.prefix;
        String queue = "/queues/" + name;
        String exchange = name + "-exchange";
        management.ask("DELETE", queue, null);
        management.ask("PUT", queue, Map.of("arguments", Map.of("x-max-length", 5)), 201);
        management.ask("PUT", queue, Map.of("arguments", Map.of("x-max-length", 5)), 200);
        management.ask("PUT", queue, Map.of("arguments", Map.of("x-max-length", 6)), 409);
        var info = management.askMap("GET", queue, null, 200);
        equal("name", info.get("name"), name);
        equal("type", info.get("type"), "classic");
        equal("message_count", info.get("message_count"), UnsignedLong.valueOf(0));
        management.ask("PUT", "/exchanges/" + exchange, Map.of("type", "topic"), 204);
        management.ask("POST", "/bindings", Map.of("source", exchange, "destination_queue", name,
                "binding_key", "a.#", "arguments", Map.of()), 204);
        String path = "/bindings?src=" + exchange + "&dstq=" + name + "&key=a.%23";
        var found = (List<?>) management.ask("GET", path, null, 200);
        equal("bindings", found.size(), 1);
        String location = (String) ((Map<?, ?>) found.get(0)).get("location");
        management.ask("DELETE", location, null, 204);
        equal("bindings", management.ask("GET", path, null, 200), List.of());
        scene.publish(name, Message.create("1"), Message.create("2"));
        var purged = management.askMap("DELETE", queue + "/messages", null, 200);
        equal("purged", purged.get("message_count"), UnsignedLong.valueOf(2));
        management.ask("DELETE", "/exchanges/" + exchange, null, 204);
        management.ask("DELETE", queue, null, 200);
        management.ask("GET", queue, null, 404);
    }

    private Connections() {}
}
