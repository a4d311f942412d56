package interop.rabbitmqjava;

import interop.Runner;
import interop.Runner.Scenario;
import java.util.LinkedHashMap;

/**
 * The RabbitMQ AMQP 1.0 client for Java through the scenarios of ../SCENARIOS.md.
 *
 * <p>Needs Java 17 and Maven. Built by {@code mvn package} in this folder; called with SETTING.json
 * and the names of scenarios. The client asks the broker for its identity and refuses all but
 * RabbitMQ: it needs {@code coroner serve --announce-rabbitmq}.
 */
public final class Client {
    static final String VERSION = "RabbitMQ AMQP 1.0 Java Client 1.5.0";

    public static void main(String[] arguments) throws Exception {
        var scenarios = new LinkedHashMap<String, Scenario<Scene>>();
        scenarios.putAll(Connections.SCENARIOS);
        scenarios.putAll(Messages.SCENARIOS);
        scenarios.putAll(Links.SCENARIOS);
        scenarios.putAll(Deaths.SCENARIOS);
        scenarios.put("page", Page::run);
        Runner.main(arguments, Scene::new, scenarios);
    }

    private Client() {}
}
