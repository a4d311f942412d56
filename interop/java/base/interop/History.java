package interop;

import static interop.Check.equal;
import static interop.Check.that;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.function.ToLongFunction;

/**
 * The death history of a message, compared whole. Each client library has types of its own for AMQP's:
 * how they are made, and the milliseconds of a timestamp.
 */
public record History(Function<String, Object> symbol, LongFunction<Object> ulong,
        LongFunction<Object> uint, ToLongFunction<Object> millis) {
    public static final long MINUTE_MS = 60_000;

    /** One entry of x-opt-deaths; a ttl of 0: none. */
    public record Death(String queue, String reason, long count, long ttlMs) {
        public Death(String queue, String reason) {
            this(queue, reason, 1, 0);
        }
    }

    /** Arguments of a queue whose dead letters go to this one. */
    public static Map<String, Object> to(String queue) {
        return Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", queue);
    }

    /** A message annotation by its name. */
    public interface Annotations {
        Object of(String name) throws Exception;
    }

    /** The whole history: entries newest first, and the first death. */
    public void check(Annotations annotations, Death first, Death... entries) throws Exception {
        for (var one : Map.of("first", first, "last", entries[0]).entrySet()) {
            String begin = "x-" + one.getKey() + "-death-";
            equal(begin + "queue", annotations.of(begin + "queue"), one.getValue().queue());
            equal(begin + "reason", annotations.of(begin + "reason"), one.getValue().reason());
            equal(begin + "exchange", annotations.of(begin + "exchange"), "");
        }
        var deaths = (Object[]) annotations.of("x-opt-deaths");
        equal("entries", deaths.length, entries.length);
        for (int at = 0; at < entries.length; at++) {
            check((Map<?, ?>) deaths[at], entries[at]);
        }
    }

    private void check(Map<?, ?> entry, Death death) {
        var fields = new HashMap<Object, Object>(entry);
        long begun = millis.applyAsLong(fields.remove(symbol.apply("first-time")));
        long ended = millis.applyAsLong(fields.remove(symbol.apply("last-time")));
        long age = System.currentTimeMillis() - ended;
        that("times", begun <= ended && -MINUTE_MS < age && age < MINUTE_MS);
        equal("routing-keys", fields.remove(symbol.apply("routing-keys")), new String[] {death.queue()});
        var expected = new HashMap<Object, Object>(Map.of(
                symbol.apply("queue"), death.queue(), symbol.apply("reason"), symbol.apply(death.reason()),
                symbol.apply("count"), ulong.apply(death.count()), symbol.apply("exchange"), ""));
        if (death.ttlMs() > 0) {
            expected.put(symbol.apply("ttl"), uint.apply(death.ttlMs()));
        }
        equal("entry", fields, expected);
    }
}
