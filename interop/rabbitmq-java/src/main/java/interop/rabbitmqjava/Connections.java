package interop.rabbitmqjava;

import static com.rabbitmq.client.amqp.ConnectionSettings.SASL_MECHANISM_ANONYMOUS;
import static com.rabbitmq.client.amqp.ConnectionSettings.SASL_MECHANISM_EXTERNAL;
import static interop.Check.equal;

import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.ConnectionBuilder;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Publisher;
import interop.Runner.Scenario;
import interop.Skip;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.net.ssl.SSLContext;

/** SASL, TLS, vhosts, management. */
final class Connections {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("plain", Connections::plain);
        SCENARIOS.put("anonymous", Connections::anonymous);
        SCENARIOS.put("scram", scene -> skip("has PLAIN, ANONYMOUS and EXTERNAL only"));
        SCENARIOS.put("tls", Connections::tls);
        SCENARIOS.put("external", Connections::external);
        SCENARIOS.put("no-sasl", scene -> skip("always begins with SASL"));
        SCENARIOS.put("vhost", Connections::vhost);
        SCENARIOS.put("frames", scene -> skip("has no setting for max-frame-size"));
        SCENARIOS.put("declare", Connections::declare);
    }

    static void skip(String why) {
        throw new Skip(Client.VERSION + " " + why);
    }

    private static void plain(Scene scene) {
        Scene.refused(AmqpException.AmqpSecurityException.class.getName(),
                () -> scene.builder().password("wrong").build());
        scene.builder().build();
    }

    private static void anonymous(Scene scene) throws Exception {
        var connection = scene.builder().saslMechanism(SASL_MECHANISM_ANONYMOUS).build();
        String queue = scene.queue("");
        var publisher = connection.publisherBuilder().queue(queue).build();
        Scene.accepted(publisher, publisher.message("by nobody".getBytes()));
        scene.inbox(queue).textIs("by nobody");
    }

    private static Connection secure(Scene scene, ConnectionBuilder builder, SSLContext context) {
        builder.host("localhost").port(scene.setting.amqps())
                .tls().hostnameVerification(true).sslContext(context);
        return builder.build();
    }

    private static void tls(Scene scene) throws Exception {
        secure(scene, scene.builder(), scene.setting.tls());
    }

    private static void external(Scene scene) throws Exception {
        secure(scene, scene.builder().saslMechanism(SASL_MECHANISM_EXTERNAL),
                scene.setting.tlsWithCertificate());
    }

    private static void vhost(Scene scene) {
        String name = scene.prefix;
        var other = scene.builder().virtualHost(scene.setting.vhost()).build();
        other.management().queue(name).declare();
        Scene.refused("amqp:not-found", () -> scene.inbox(name));
        new Inbox(other, name).close();
        other.management().queueDelete(name);
        Scene.refused("amqp:not-found",
                () -> scene.builder().virtualHost("interop-missing").build().management()
                        .queueInfo(name));
    }

    private static Management.QueueSpecification limited(Scene scene, int length) {
        return scene.management.queue(scene.prefix).type(Management.QueueType.CLASSIC)
                .maxLength(length);
    }

    /** The client does not list bindings: what is unbound is not routed to. */
    private static void declare(Scene scene) throws Exception {
        var management = scene.management;
        String exchange = scene.prefix + "-exchange";
        String name = scene.declared(scene.prefix, limited(scene, 5));
        limited(scene, 5).declare();
        Scene.refused("409", () -> limited(scene, 6).declare());
        var info = management.queueInfo(name);
        equal("name", info.name(), name);
        equal("type", info.type(), Management.QueueType.CLASSIC);
        equal("message count", info.messageCount(), 0L);
        management.exchange(exchange).type(Management.ExchangeType.TOPIC).declare();
        management.binding().sourceExchange(exchange).destinationQueue(name).key("a.#").bind();
        var publisher = scene.connection.publisherBuilder().exchange(exchange).key("a.b").build();
        Scene.accepted(publisher, publisher.message("1".getBytes()));
        management.unbind().sourceExchange(exchange).destinationQueue(name).key("a.#").unbind();
        equal("unbound", Scene.outcome(publisher, publisher.message("2".getBytes())).status(),
                Publisher.Status.RELEASED);
        equal("purged", management.queuePurge(name).messageCount(), 1L);
        management.exchangeDelete(exchange);
        management.queueDelete(name);
        Scene.refused("DoesNotExist", () -> management.queueInfo(name));
    }

    private Connections() {}
}
