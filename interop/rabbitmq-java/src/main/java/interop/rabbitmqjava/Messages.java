package interop.rabbitmqjava;

import static interop.Check.equal;

import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.qpid.protonj2.types.Decimal128;
import com.rabbitmq.qpid.protonj2.types.Decimal32;
import com.rabbitmq.qpid.protonj2.types.Decimal64;
import com.rabbitmq.qpid.protonj2.types.Symbol;
import com.rabbitmq.qpid.protonj2.types.UnknownDescribedType;
import com.rabbitmq.qpid.protonj2.types.UnsignedByte;
import com.rabbitmq.qpid.protonj2.types.UnsignedInteger;
import com.rabbitmq.qpid.protonj2.types.UnsignedLong;
import com.rabbitmq.qpid.protonj2.types.UnsignedShort;
import interop.Runner.Scenario;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.UnaryOperator;

/** Sections and types, as far as the client has them: its bodies are one data section. */
final class Messages {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("sections", Messages::sections);
        SCENARIOS.put("types", Messages::types);
        SCENARIOS.put("bodies", Messages::bodies);
        SCENARIOS.put("large", Messages::large);
    }

    private static Message roundTrip(Scene scene, String suffix, UnaryOperator<Message> fill)
            throws Exception {
        String queue = scene.queue(suffix);
        try (var publisher = scene.publisher(queue); var inbox = scene.inbox(queue)) {
            Scene.accepted(publisher, fill.apply(publisher.message()));
            var letter = inbox.take();
            letter.context().accept();
            return letter.message();
        }
    }

    /** The client has no footers. */
    private static void sections(Scene scene) throws Exception {
        byte[] user = scene.setting.user().getBytes();
        var received = roundTrip(scene, "", message -> message.durable(true).priority((byte) 7)
                .ttl(Duration.ofMinutes(10)).messageId("id-1").userId(user).to("/somewhere")
                .subject("subject").replyTo("/answers").correlationId(7L)
                .contentType("text/plain").contentEncoding("gzip")
                .absoluteExpiryTime(4_102_444_800_000L).creationTime(1_700_000_000_000L)
                .groupId("group").groupSequence(3).replyToGroupId("answers")
                .annotation("x-opt-text", "note").annotation("x-opt-list", List.of(1, "two"))
                .property("n", 7L).property("s", "text").body("body".getBytes()));
        equal("durable", received.durable(), true);
        equal("priority", received.priority(), (byte) 7);
        equal("ttl", received.ttl(), Duration.ofMinutes(10));
        equal("message-id", received.messageId(), "id-1");
        equal("user-id", received.userId(), user);
        equal("to", received.to(), "/somewhere");
        equal("subject", received.subject(), "subject");
        equal("reply-to", received.replyTo(), "/answers");
        equal("correlation-id", received.correlationIdAsLong(), 7L);
        equal("content-type", received.contentType(), "text/plain");
        equal("content-encoding", received.contentEncoding(), "gzip");
        equal("absolute-expiry-time", received.absoluteExpiryTime(), 4_102_444_800_000L);
        equal("creation-time", received.creationTime(), 1_700_000_000_000L);
        equal("group-id", received.groupId(), "group");
        equal("group-sequence", received.groupSequence(), 3);
        equal("reply-to-group-id", received.replyToGroupId(), "answers");
        equal("text", received.annotation("x-opt-text"), "note");
        equal("list", received.annotation("x-opt-list"), List.of(1, "two"));
        equal("n", received.property("n"), 7L);
        equal("s", received.property("s"), "text");
        equal("body", received.body(), "body".getBytes());
    }

    /** Every simple type as application property; the others as annotation. */
    private static void types(Scene scene) throws Exception {
        var decimal = new BigDecimal("7.5");
        var compound = new LinkedHashMap<String, Object>();
        compound.put("x-opt-list", List.of(1L, "two", List.of(3)));
        compound.put("x-opt-map", Map.of("a", 1));
        compound.put("x-opt-array", new int[] {1, 2});
        compound.put("x-opt-described", new UnknownDescribedType(Symbol.valueOf("app:thing"), "value"));
        var received = roundTrip(scene, "", message -> {
            compound.forEach(message::annotation);
            return message.property("boolean", true).propertyUnsigned("ubyte", (byte) 255)
                    .propertyUnsigned("ushort", (short) 65535).propertyUnsigned("uint", -1)
                    .propertyUnsigned("ulong", -1L).property("byte", Byte.MIN_VALUE)
                    .property("short", Short.MIN_VALUE).property("int", Integer.MIN_VALUE)
                    .property("long", Long.MIN_VALUE).property("float", 1.5f)
                    .property("double", 2.5).propertyDecimal32("decimal32", decimal)
                    .propertyDecimal64("decimal64", decimal)
                    .propertyDecimal128("decimal128", decimal).property("char", '\u20ac')
                    .propertyTimestamp("timestamp", 1_700_000_000_123L)
                    .property("uuid", new UUID(1, 2)).property("binary", new byte[] {0, -1})
                    .property("string", "gr\u00fc\u00dfe").propertySymbol("symbol", "sym");
        });
        var expected = new LinkedHashMap<String, Object>();
        expected.put("boolean", true);
        expected.put("ubyte", UnsignedByte.valueOf((byte) 255));
        expected.put("ushort", UnsignedShort.valueOf((short) 65535));
        expected.put("uint", UnsignedInteger.valueOf(-1));
        expected.put("ulong", UnsignedLong.valueOf(-1L));
        expected.put("byte", Byte.MIN_VALUE);
        expected.put("short", Short.MIN_VALUE);
        expected.put("int", Integer.MIN_VALUE);
        expected.put("long", Long.MIN_VALUE);
        expected.put("float", 1.5f);
        expected.put("double", 2.5);
        expected.put("decimal32", new Decimal32(decimal));
        expected.put("decimal64", new Decimal64(decimal));
        expected.put("decimal128", new Decimal128(decimal));
        expected.put("char", '\u20ac');
        expected.put("timestamp", 1_700_000_000_123L); // the client reads timestamps as Long
        expected.put("uuid", new UUID(1, 2));
        expected.put("binary", new byte[] {0, -1});
        expected.put("string", "gr\u00fc\u00dfe");
        expected.put("symbol", Symbol.valueOf("sym"));
        expected.forEach((name, value) -> equal(name, received.property(name), value));
        compound.forEach((name, value) -> equal(name, received.annotation(name), value));
    }

    private static void bodies(Scene scene) throws Exception {
        for (String body : List.of("", "data")) {
            byte[] bytes = body.getBytes();
            equal("body", roundTrip(scene, "-" + body, message -> message.body(bytes)).body(), bytes);
        }
    }

    private static void large(Scene scene) throws Exception {
        byte[] body = "a large body ".repeat(10 * 1024 * 1024 / 13).getBytes();
        equal("body", roundTrip(scene, "", message -> message.body(body)).body(), body);
    }

    private Messages() {}
}
