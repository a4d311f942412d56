package interop;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.DeliveryMode;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.SenderOptions;
import org.apache.qpid.protonj2.client.Session;
import org.apache.qpid.protonj2.client.exceptions.ClientException;
import org.apache.qpid.protonj2.types.messaging.AmqpValue;
import org.apache.qpid.protonj2.client.AdvancedMessage;

/** The link pair of the node /management, through ProtonJ2. */
public final class Management {
    private static final Map<String, Object> PAIRED = Map.of("paired", true);
    private static final int CREDIT = 8;

    private final Sender sender;
    private final Receiver receiver;

    public Management(Connection connection) throws Exception {
        Session session = connection.openSession();
        sender = session.openSender("/management", new SenderOptions().linkName("management")
                .deliveryMode(DeliveryMode.AT_MOST_ONCE).properties(PAIRED));
        receiver = session.openReceiver("/management", new ReceiverOptions().linkName("management")
                .deliveryMode(DeliveryMode.AT_MOST_ONCE).properties(PAIRED).creditWindow(CREDIT));
        sender.openFuture().get();
        receiver.openFuture().get();
    }

    /** The body of the answer; its code is one of those named, or any if none is. */
    public Object ask(String method, String path, Object body, int... codes) throws ClientException {
        AdvancedMessage<Object> request = AdvancedMessage.create();
        request.messageId("request").subject(method).to(path).replyTo("$me");
        request.addBodySection(new AmqpValue<>(body));
        sender.send(request);
        var delivery = receiver.receive(Check.TIMEOUT_MS, TimeUnit.MILLISECONDS);
        Check.that(method + " " + path + " is not answered", delivery != null);
        var answer = delivery.message();
        int code = Integer.parseInt(answer.subject());
        Check.that(method + " " + path + ": " + code + " " + answer.body(),
                codes.length == 0 || Arrays.stream(codes).anyMatch(one -> one == code));
        return answer.body();
    }

    @SuppressWarnings("unchecked")
    public Map<String, Object> askMap(String method, String path, Object body, int... codes)
            throws ClientException {
        return (Map<String, Object>) ask(method, path, body, codes);
    }
}
