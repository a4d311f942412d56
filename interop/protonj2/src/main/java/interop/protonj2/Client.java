package interop.protonj2;

import interop.Runner;
import interop.Runner.Scenario;
import java.util.LinkedHashMap;

/**
 * Qpid ProtonJ2 (Java) through the scenarios of ../SCENARIOS.md.
 *
 * <p>Needs Java 17 and Maven. Built by {@code mvn package} in this folder; called with SETTING.json
 * and the names of scenarios.
 */
public final class Client {
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
