package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/** Runs the scenarios a client was called for, and prints a line for each. */
public final class Runner {
    private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));

    /** Makes what one scenario works on, and deletes it at its end. */
    public interface Opener<S extends AutoCloseable> {
        S open(Setting setting, String name) throws Exception;
    }

    public interface Scenario<S> {
        void run(S scene) throws Exception;
    }

    /** Ends the process: with status 0 if no scenario failed. */
    @SafeVarargs
    public static <S extends AutoCloseable> void main(String[] arguments, Opener<S> opener,
            Map<String, Scenario<S>>... parts) throws Exception {
        var scenarios = new LinkedHashMap<String, Scenario<S>>();
        for (var part : parts) {
            scenarios.putAll(part);
        }
        var setting = Setting.read(arguments[0]);
        Collection<String> named = Arrays.asList(arguments).subList(1, arguments.length);
        int status = 0;
        for (String name : named.isEmpty() ? scenarios.keySet() : named) {
            try {
                if (!scenarios.containsKey(name)) {
                    throw new Skip("not written for this client");
                }
                try (S scene = opener.open(setting, name)) {
                    scenarios.get(name).run(scene);
                }
                System.out.println("ok " + name);
            } catch (Skip why) {
                System.out.println("skip " + name + " " + why.getMessage());
            } catch (Exception | AssertionError why) {
                status = 1;
                why.printStackTrace();
                System.out.println("fail " + name + " " + why.toString().replace('\n', ' '));
            }
        }
        System.exit(status);
    }

    /** Has the broker killed and started again. */
    public static void restartBroker() throws Exception {
        System.out.println("restart");
        Check.equal("the answer to restart", INPUT.readLine(), "restarted");
    }

    private Runner() {}
}
