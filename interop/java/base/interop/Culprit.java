package interop;

import static interop.Check.equal;
import static interop.Check.that;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;

/** Who caused a death, as a dead letter tells it: a map whose keys and `how` are symbols. */
public record Culprit(String how, String container, String link, String user) {
    /** The address is compared but for its port, which nobody knows before. */
    public void check(Object observed, Function<String, Object> symbol) {
        var by = new HashMap<Object, Object>((Map<?, ?>) observed);
        String address = (String) by.remove(symbol.apply("address"));
        that("host of the consumer: " + address, address != null && address.startsWith("127.0.0.1:"));
        equal("by", by, Map.of(symbol.apply("how"), symbol.apply(how), symbol.apply("container"), container,
                symbol.apply("link"), link, symbol.apply("user"), user));
    }
}
