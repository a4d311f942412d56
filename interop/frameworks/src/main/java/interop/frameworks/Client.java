package interop.frameworks;

import java.util.Map;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What frameworks over Qpid JMS do with a broker: {@code Client NAME PORT}, with the queues that the caller declared. */
public final class Client {
    /** How long anything may take. */
    static final long TIMEOUT_MS = 20_000;
    /** How long nothing has to come. */
    static final long NOTHING_MS = 500;

    /** What one framework has to do. */
    interface Checks {
        void run(int port) throws Exception;
    }

    private static final Map<String, Checks> FRAMEWORKS =
            Map.of("spring", Spring::run, "pooled-jms", Pooled::run, "camel", Camel::run);

    public static void main(String[] arguments) throws Exception {
        try {
            FRAMEWORKS.get(arguments[0]).run(Integer.parseInt(arguments[1]));
        } catch (Throwable wrong) {
            System.out.println("FAIL  " + arguments[0] + ": " + wrong);
            wrong.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    static JmsConnectionFactory factory(int port) {
        return new JmsConnectionFactory("guest", "guest", "amqp://127.0.0.1:" + port + "?jms.queuePrefix=/queues/");
    }

    static void ok(String what) {
        System.out.println("ok    " + what);
    }

    static void equal(String what, Object is, Object expect) {
        if (!expect.equals(is)) {
            throw new AssertionError(what + ": " + is + ", not " + expect);
        }
    }

    /** A question that is asked until its answer is yes. */
    interface Question {
        boolean holds() throws Exception;
    }

    static void until(String what, Question question) throws Exception {
        for (long end = System.currentTimeMillis() + TIMEOUT_MS; !question.holds(); Thread.sleep(20)) {
            if (System.currentTimeMillis() > end) {
                throw new AssertionError("not within " + TIMEOUT_MS + " ms: " + what);
            }
        }
    }

    private Client() {}
}
