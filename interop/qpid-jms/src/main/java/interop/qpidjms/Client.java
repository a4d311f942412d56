package interop.qpidjms;

import interop.Runner;

/**
 * Qpid JMS (Java) through the scenarios of ../SCENARIOS.md, as far as JMS has what they are about.
 *
 * <p>Needs Java 17 and Maven. Built by {@code mvn package} in this folder; called with SETTING.json
 * and the names of scenarios. JMS has no properties of links, so /management is spoken to through
 * ProtonJ2; everything else goes through JMS.
 */
public final class Client {
    static final String VERSION = "Qpid JMS 2.10.0";

    public static void main(String[] arguments) throws Exception {
        Runner.main(arguments, Scene::new, Connections.SCENARIOS, Messages.SCENARIOS,
                Links.SCENARIOS, Deaths.SCENARIOS, Evidence.SCENARIOS, Later.SCENARIOS,
                Topics.SCENARIOS);
    }

    private Client() {}
}
