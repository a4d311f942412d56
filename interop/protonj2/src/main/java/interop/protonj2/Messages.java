package interop.protonj2;

import static interop.Check.equal;

import interop.Runner.Scenario;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.qpid.protonj2.client.AdvancedMessage;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.types.Binary;
import org.apache.qpid.protonj2.types.Decimal128;
import org.apache.qpid.protonj2.types.Decimal32;
import org.apache.qpid.protonj2.types.Decimal64;
import org.apache.qpid.protonj2.types.Symbol;
import org.apache.qpid.protonj2.types.UnknownDescribedType;
import org.apache.qpid.protonj2.types.UnsignedByte;
import org.apache.qpid.protonj2.types.UnsignedInteger;
import org.apache.qpid.protonj2.types.UnsignedLong;
import org.apache.qpid.protonj2.types.UnsignedShort;
import org.apache.qpid.protonj2.types.messaging.AmqpSequence;
import org.apache.qpid.protonj2.types.messaging.AmqpValue;
import org.apache.qpid.protonj2.types.messaging.Data;
import org.apache.qpid.protonj2.types.messaging.Section;

/** Every type and section goes out and comes back the same. */
final class Messages {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("sections", Messages::sections);
        SCENARIOS.put("types", Messages::types);
        SCENARIOS.put("bodies", Messages::bodies);
        SCENARIOS.put("large", Messages::large);
    }

    static byte[] bytes(int count) {
        byte[] bytes = new byte[count];
        for (int at = 0; at < count; at++) {
            bytes[at] = (byte) (at * 31 >> 3);
        }
        return bytes;
    }

    private static <E> AdvancedMessage<E> roundTrip(Scene scene, String suffix, Message<?> message)
            throws Exception {
        String queue = scene.queue(suffix);
        scene.publish(queue, message);
        var delivery = Scene.receive(scene.receiver(queue));
        delivery.accept();
        return delivery.<E>message().toAdvancedMessage();
    }

    private static void sections(Scene scene) throws Exception {
        var sent = AdvancedMessage.<String>create();
        sent.durable(true).priority((byte) 7).timeToLive(600_000);
        sent.messageId("id-1").userId(scene.setting.user().getBytes()).to("/somewhere")
                .subject("subject").replyTo("/answers").correlationId(UnsignedLong.valueOf(7))
                .contentType("text/plain").contentEncoding("gzip")
                .absoluteExpiryTime(4_102_444_800_000L).creationTime(1_700_000_000_000L)
                .groupId("group").groupSequence(3).replyToGroupId("answers");
        sent.annotation("x-opt-text", "note").annotation("x-opt-list", List.of(1, "two"));
        sent.property("n", 7L).property("s", "text").footer("x-opt-end", "last").body("body");
        var received = Messages.<String>roundTrip(scene, "", sent);
        equal("durable", received.durable(), true);
        equal("priority", received.priority(), (byte) 7);
        equal("ttl", received.timeToLive(), 600_000L);
        equal("properties", received.properties().toString(), sent.properties().toString());
        for (String name : List.of("x-opt-text", "x-opt-list")) {
            equal(name, received.annotation(name), sent.annotation(name));
        }
        equal("application properties", received.applicationProperties().getValue(),
                sent.applicationProperties().getValue());
        equal("footer", received.footer("x-opt-end"), "last");
        equal("body", received.body(), "body");
    }

    static Map<String, Object> simple() {
        var simple = new LinkedHashMap<String, Object>();
        simple.put("boolean", true);
        simple.put("ubyte", UnsignedByte.valueOf((byte) 255));
        simple.put("ushort", UnsignedShort.valueOf((short) 65535));
        simple.put("uint", UnsignedInteger.valueOf(4_294_967_295L));
        simple.put("ulong", UnsignedLong.valueOf(-1L));
        simple.put("byte", Byte.MIN_VALUE);
        simple.put("short", Short.MIN_VALUE);
        simple.put("int", Integer.MIN_VALUE);
        simple.put("long", Long.MIN_VALUE);
        simple.put("float", 1.5f);
        simple.put("double", 2.5);
        simple.put("decimal32", new Decimal32(7));
        simple.put("decimal64", new Decimal64(8L));
        simple.put("decimal128", new Decimal128(1L, 2L));
        simple.put("char", '\u20ac');
        simple.put("timestamp", new Date(1_700_000_000_123L));
        simple.put("uuid", new UUID(1, 2));
        simple.put("binary", new Binary(new byte[] {0, -1}));
        simple.put("string", "gr\u00fc\u00dfe");
        simple.put("symbol", Symbol.valueOf("sym"));
        return simple;
    }

    private static void types(Scene scene) throws Exception {
        var simple = simple();
        var body = new LinkedHashMap<>(simple);
        body.put("null", null);
        body.put("list", List.of(1L, "two", List.of(3)));
        body.put("map", Map.of("a", 1));
        body.put("array", new int[] {1, 2});
        body.put("symbols", new Symbol[] {Symbol.valueOf("a"), Symbol.valueOf("b")});
        body.put("described", new UnknownDescribedType(Symbol.valueOf("app:thing"), "value"));
        var sent = AdvancedMessage.<Map<String, Object>>create();
        for (var one : simple.entrySet()) {
            sent.property(one.getKey(), one.getValue());
        }
        sent.addBodySection(new AmqpValue<>(body));
        var received = Messages.<Map<String, Object>>roundTrip(scene, "", sent);
        for (var one : simple.entrySet()) {
            String name = one.getKey();
            equal("application property " + name, received.property(name), asRead(one.getValue()));
        }
        for (var one : body.entrySet()) {
            equal(one.getKey(), received.body().get(one.getKey()), asRead(one.getValue()));
        }
        equal("order of the keys", List.copyOf(received.body().keySet()), List.copyOf(body.keySet()));
    }

    /** What ProtonJ2 1.1.0 gives for a value it wrote: timestamps come as Long. */
    static Object asRead(Object value) {
        return value instanceof Date date ? (Object) date.getTime() : value;
    }

    private static void bodies(Scene scene) throws Exception {
        keeps(scene, "-datas", new Data("one".getBytes()), new Data("two".getBytes()));
        keeps(scene, "-data", new Data(new byte[0]));
        keeps(scene, "-sequences", new AmqpSequence<>(List.of(1)),
                new AmqpSequence<>(List.of(2, "three")));
        keeps(scene, "-value", new AmqpValue<>("one"));
    }

    private static void keeps(Scene scene, String suffix, Section<?>... sections) throws Exception {
        var message = AdvancedMessage.create();
        for (var section : sections) {
            message.addBodySection(section);
        }
        var received = List.copyOf(roundTrip(scene, suffix, message).bodySections());
        equal("sections", received.size(), sections.length);
        for (int at = 0; at < sections.length; at++) {
            equal("kind", received.get(at).getType(), sections[at].getType());
            equal("section", received.get(at).getValue(), sections[at].getValue());
        }
    }

    private static void large(Scene scene) throws Exception {
        byte[] body = bytes(10 * 1024 * 1024);
        equal("body", roundTrip(scene, "", Message.create(body)).body(), body);
    }

    private Messages() {}
}
