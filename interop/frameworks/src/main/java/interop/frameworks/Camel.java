package interop.frameworks;

import static interop.frameworks.Client.equal;
import static interop.frameworks.Client.ok;
import static interop.frameworks.Client.until;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.jms.JmsComponent;
import org.apache.camel.impl.DefaultCamelContext;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.connection.JmsTransactionManager;

/** Camel: a transacted route from queue to queue, of which some messages fail again and again; request and reply. */
final class Camel {
    static void run(int port) throws Exception {
        var connections = new CachingConnectionFactory(Client.factory(port));
        List<String> arrived = Collections.synchronizedList(new ArrayList<>());
        List<String> tried = Collections.synchronizedList(new ArrayList<>());
        try (var camel = new DefaultCamelContext()) {
            var transactions = new JmsTransactionManager(connections);
            camel.addComponent("jms", JmsComponent.jmsComponentTransacted(connections, transactions));
            camel.addComponent("plain", JmsComponent.jmsComponentAutoAcknowledge(connections));
            camel.addRoutes(new RouteBuilder() {
                @Override
                public void configure() {
                    from("jms:queue:camel-in")
                            .to("jms:queue:camel-out") // undone, if what follows fails
                            .process(exchange -> {
                                String text = exchange.getMessage().getBody(String.class);
                                tried.add(text);
                                if (text.startsWith("poison")) {
                                    throw new IllegalStateException(text);
                                }
                            });
                    from("plain:queue:camel-out")
                            .process(exchange -> arrived.add(exchange.getMessage().getBody(String.class)));
                    from("plain:queue:camel-requests")
                            .process(exchange -> exchange.getMessage()
                                    .setBody("re: " + exchange.getMessage().getBody(String.class)));
                }
            });
            camel.start();
            try (var template = camel.createProducerTemplate()) {
                for (int number = 0; number < 20; number++) {
                    String text = (number % 10 == 5 ? "poison " : "good ") + number;
                    template.sendBody("plain:queue:camel-in", text);
                }
                until("18 good messages", () -> arrived.size() >= 18);
                until("poison was tried", () -> tried.stream().filter(text -> text.startsWith("poison")).count() >= 6);
                Thread.sleep(Client.NOTHING_MS);
                equal("each once", Set.copyOf(arrived).size(), 18);
                equal("nothing of what was rolled back", arrived.stream().filter(text -> text.startsWith("poison")).count(),
                        0L);
                equal("tries of poison", tried.stream().filter("poison 5"::equals).count(), 3L);
                ok("camel: a transacted route moves good messages once, poison dies after three tries, its copies are undone");
                equal("the answer", template.requestBody("plain:queue:camel-requests", "question", String.class),
                        "re: question");
                ok("camel: a request is answered by a temporary queue");
            }
        }
        connections.destroy();
    }

    private Camel() {}
}
