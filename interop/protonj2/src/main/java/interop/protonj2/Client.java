package interop.protonj2;

import interop.Runner;

/**
 * Qpid ProtonJ2 (Java) through the scenarios of ../SCENARIOS.md.
 *
 * <p>Needs Java 17 and Maven. Built by {@code mvn package} in this folder; called with SETTING.json
 * and the names of scenarios.
 */
public final class Client {
    public static void main(String[] arguments) throws Exception {
        Runner.main(arguments, Scene::new, Connections.SCENARIOS, Messages.SCENARIOS,
                Links.SCENARIOS, Deaths.SCENARIOS, Evidence.SCENARIOS);
    }

    private Client() {}
}
