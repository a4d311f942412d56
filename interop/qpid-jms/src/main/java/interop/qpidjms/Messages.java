package interop.qpidjms;

import static interop.Check.equal;

import interop.Runner.Scenario;
import jakarta.jms.BytesMessage;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.ObjectMessage;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.qpid.jms.message.JmsMessage;
import org.apache.qpid.proton.amqp.Binary;
import org.apache.qpid.proton.amqp.Decimal128;
import org.apache.qpid.proton.amqp.Decimal32;
import org.apache.qpid.proton.amqp.Decimal64;
import org.apache.qpid.proton.amqp.Symbol;
import org.apache.qpid.proton.amqp.UnsignedByte;
import org.apache.qpid.proton.amqp.UnsignedInteger;
import org.apache.qpid.proton.amqp.UnsignedLong;
import org.apache.qpid.proton.amqp.UnsignedShort;

/** The kinds of messages JMS has, their headers and properties, and values of AMQP's types. */
final class Messages {
    static final Map<String, Scenario<Scene>> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("sections", Messages::sections);
        SCENARIOS.put("types", Messages::types);
        SCENARIOS.put("bodies", Messages::bodies);
        SCENARIOS.put("large", Messages::large);
    }

    private static Message roundTrip(Scene scene, String suffix, Message message) throws Exception {
        String queue = scene.queue(suffix);
        scene.publish(queue, message);
        var received = Scene.receive(scene.consumer(queue));
        Scene.settle(received, Scene.ACCEPTED);
        return received;
    }

    /** The sections as far as JMS reaches them: no content-encoding and no footer. */
    private static void sections(Scene scene) throws Exception {
        String queue = scene.queue("");
        var session = Scene.session(
                scene.connect("?jms.populateJMSXUserID=true&jms.prefetchPolicy.all=0"));
        var sent = session.createTextMessage("body");
        sent.setJMSCorrelationID("ID:AMQP_ULONG:7");
        sent.setJMSType("subject");
        sent.setJMSReplyTo(scene.destination("answers"));
        sent.setStringProperty("JMSXGroupID", "group");
        sent.setIntProperty("JMSXGroupSeq", 3);
        sent.setStringProperty("JMS_AMQP_REPLY_TO_GROUP_ID", "answers");
        sent.setLongProperty("n", 7);
        sent.setStringProperty("s", "text");
        ((JmsMessage) sent).getFacade().setTracingAnnotation("x-opt-text", "note");
        session.createProducer(scene.destination(queue)).send(sent, DeliveryMode.PERSISTENT, 7, 600_000);
        var received = Scene.receive(session.createConsumer(scene.destination(queue)));
        equal("delivery mode", received.getJMSDeliveryMode(), DeliveryMode.PERSISTENT);
        equal("priority", received.getJMSPriority(), 7);
        equal("expiration", received.getJMSExpiration(), sent.getJMSExpiration());
        equal("message id", received.getJMSMessageID(), sent.getJMSMessageID());
        equal("timestamp", received.getJMSTimestamp(), sent.getJMSTimestamp());
        equal("correlation id", received.getJMSCorrelationID(), "ID:AMQP_ULONG:7");
        equal("type", received.getJMSType(), "subject");
        equal("reply to", received.getJMSReplyTo(), scene.destination("answers"));
        equal("to", received.getJMSDestination(), scene.destination(queue));
        equal("user id", received.getStringProperty("JMSXUserID"), scene.setting.user());
        equal("group id", received.getStringProperty("JMSXGroupID"), "group");
        equal("group sequence", received.getIntProperty("JMSXGroupSeq"), 3);
        equal("answers", received.getStringProperty("JMS_AMQP_REPLY_TO_GROUP_ID"), "answers");
        equal("n", received.getObjectProperty("n"), 7L);
        equal("s", received.getObjectProperty("s"), "text");
        equal("annotation", Scene.annotation(received, "x-opt-text"), "note");
        equal("body", ((TextMessage) received).getText(), "body");
    }

    /** Every simple type AMQP has; Qpid JMS takes them in an object message with typed encoding. */
    private static Map<String, Object> simple() {
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
        var body = new LinkedHashMap<>(simple());
        body.put("null", null);
        body.put("list", new ArrayList<>(List.of(1L, "two", new ArrayList<>(List.of(3)))));
        body.put("map", new LinkedHashMap<>(Map.of("a", 1)));
        var sent = scene.session.createObjectMessage();
        sent.setBooleanProperty("JMS_AMQP_TYPED_ENCODING", true);
        sent.setObject((Serializable) body);
        Map<String, Object> properties = Map.of("boolean", true, "byte", Byte.MIN_VALUE,
                "short", Short.MIN_VALUE, "int", Integer.MIN_VALUE, "long", Long.MIN_VALUE,
                "float", 1.5f, "double", 2.5, "string", "gr\u00fc\u00dfe");
        for (var one : properties.entrySet()) {
            sent.setObjectProperty(one.getKey(), one.getValue());
        }
        var received = (ObjectMessage) roundTrip(scene, "", sent);
        for (var one : properties.entrySet()) {
            equal(one.getKey(), received.getObjectProperty(one.getKey()), one.getValue());
        }
        var values = (Map<?, ?>) received.getObject();
        for (var one : body.entrySet()) {
            equal(one.getKey(), values.get(one.getKey()), one.getValue());
        }
        equal("order of the keys", List.copyOf(values.keySet()), List.copyOf(body.keySet()));
    }

    /** Each kind of message; JMS writes one body section. */
    private static void bodies(Scene scene) throws Exception {
        var session = scene.session;
        var text = roundTrip(scene, "-text", session.createTextMessage("one"));
        equal("text", ((TextMessage) text).getText(), "one");
        for (String body : List.of("", "data")) {
            equal("bytes", bytesThrough(scene, "-bytes" + body, body.getBytes()), body.getBytes());
        }
        var map = session.createMapMessage();
        map.setLong("a", 1);
        map.setBytes("b", new byte[] {0, -1});
        map = (MapMessage) roundTrip(scene, "-map", map);
        equal("a", map.getObject("a"), 1L);
        equal("b", map.getBytes("b"), new byte[] {0, -1});
        var stream = session.createStreamMessage();
        stream.writeInt(1);
        stream.writeString("two");
        stream = (StreamMessage) roundTrip(scene, "-stream", stream);
        equal("first", stream.readObject(), 1);
        equal("second", stream.readObject(), "two");
        var object = roundTrip(scene, "-object", session.createObjectMessage(new Date(5)));
        equal("object", ((ObjectMessage) object).getObject(), new Date(5));
        var none = roundTrip(scene, "-none", session.createMessage());
        equal("no body", none.getClass(), JmsMessage.class);
    }

    private static byte[] bytesThrough(Scene scene, String suffix, byte[] body) throws Exception {
        var message = scene.session.createBytesMessage();
        message.writeBytes(body);
        var received = (BytesMessage) roundTrip(scene, suffix, message);
        byte[] bytes = new byte[(int) received.getBodyLength()];
        received.readBytes(bytes);
        return bytes;
    }

    private static void large(Scene scene) throws Exception {
        byte[] body = "a large body ".repeat(10 * 1024 * 1024 / 13).getBytes();
        equal("body", bytesThrough(scene, "", body), body);
    }

    private Messages() {}
}
