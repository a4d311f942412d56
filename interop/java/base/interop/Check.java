package interop;

import java.util.Objects;
import java.util.concurrent.Callable;

/** Comparing and waiting. */
public final class Check {
    public static final long TIMEOUT_MS = 10_000;

    /** Values are equal with their types; arrays by their elements. */
    public static void equal(String what, Object observed, Object expected) {
        if (!Objects.deepEquals(observed, expected)) {
            throw new AssertionError(what + ": " + text(observed) + " instead of " + text(expected));
        }
    }

    public static void that(String what, boolean holds) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    public static void until(String what, Callable<Boolean> holds) throws Exception {
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (!holds.call()) {
            that(what, System.currentTimeMillis() < deadline);
            Thread.sleep(20);
        }
    }

    private static String text(Object value) {
        return value == null ? "null" : value.getClass().getSimpleName() + " " + value;
    }

    private Check() {}
}
