package interop.rabbitmqjava;

import interop.Runner;

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
        Runner.main(arguments, Scene::new, Connections.SCENARIOS, Messages.SCENARIOS,
                Links.SCENARIOS, Deaths.SCENARIOS, Evidence.SCENARIOS);
    }

    private Client() {}
}
