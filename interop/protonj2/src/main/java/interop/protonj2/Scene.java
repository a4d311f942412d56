package interop.protonj2;

import static interop.Check.TIMEOUT_MS;
import static interop.Check.equal;
import static interop.Check.that;

import interop.Management;
import interop.Setting;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.ClientOptions;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.ErrorCondition;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.exceptions.ClientConnectionRemotelyClosedException;
import org.apache.qpid.protonj2.client.exceptions.ClientException;
import org.apache.qpid.protonj2.client.exceptions.ClientResourceRemotelyClosedException;
import org.apache.qpid.protonj2.types.UnsignedLong;

/** The setting, one connection with its management pair, and the queues of one scenario. */
final class Scene implements AutoCloseable {
    private static final int CREDIT = 10;
    private static final long NOTHING_MS = 300;

    final Setting setting;
    final String prefix;
    Connection connection;
    Management management;
    final Client client = Client.create(new ClientOptions().id("interop-protonj2"));
    private final List<String> queues = new ArrayList<>();

    Scene(Setting setting, String name) throws Exception {
        this.setting = setting;
        prefix = setting.prefix() + name;
        again();
    }

    /** Connects, anew after a restart. */
    void again() throws Exception {
        connection = connect(plain());
        management = new Management(connection);
    }

    @Override
    public void close() throws Exception {
        for (String queue : queues) {
            management.ask("DELETE", "/queues/" + queue, null);
        }
        client.close();
    }

    ConnectionOptions plain() {
        return login("PLAIN", setting.user(), setting.password());
    }

    static ConnectionOptions login(String mechanism, String user, String password) {
        var options = new ConnectionOptions().user(user).password(password);
        options.saslOptions().addAllowedMechanism(mechanism);
        return options;
    }

    Connection connect(ConnectionOptions options) throws Exception {
        return connect(setting.host(), setting.amqp(), options);
    }

    Connection connect(String host, int port, ConnectionOptions options) throws Exception {
        var opened = client.connect(host, port, options);
        opened.openFuture().get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        return opened;
    }

    /** Declares a queue that was not there; its arguments by their names. */
    String queue(String suffix, Map<String, Object> arguments) throws ClientException {
        String name = prefix + suffix;
        management.ask("DELETE", "/queues/" + name, null);
        management.ask("PUT", "/queues/" + name, Map.of("arguments", arguments), 201);
        queues.add(name);
        return name;
    }

    String queue(String suffix) throws ClientException {
        return queue(suffix, Map.of());
    }

    long count(String queue) throws ClientException {
        var answer = management.askMap("GET", "/queues/" + queue, null, 200);
        return ((UnsignedLong) answer.get("message_count")).longValue();
    }

    Sender sender(String queue) throws Exception {
        return opened(connection.openSender("/queues/" + queue));
    }

    static Sender opened(Sender sender) throws Exception {
        sender.openFuture().get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        return sender;
    }

    static Receiver opened(Receiver receiver) throws Exception {
        receiver.openFuture().get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        return receiver;
    }

    /** Options of a receiver that settles only what it is told to. */
    static ReceiverOptions options(int credit) {
        return new ReceiverOptions().autoAccept(false).creditWindow(credit);
    }

    Receiver receiver(String queue) throws Exception {
        return receiver(queue, options(CREDIT));
    }

    Receiver receiver(String queue, ReceiverOptions options) throws Exception {
        return opened(connection.openReceiver("/queues/" + queue, options));
    }

    void publish(String queue, Message<?>... messages) throws Exception {
        try (var sender = sender(queue)) {
            for (var message : messages) {
                that("accepted", outcome(sender, message).isAccepted());
            }
        }
    }

    static DeliveryState outcome(Sender sender, Message<?> message) throws ClientException {
        return sender.send(message).awaitSettlement(TIMEOUT_MS, TimeUnit.MILLISECONDS).remoteState();
    }

    static Delivery receive(Receiver receiver) throws ClientException {
        var delivery = receiver.receive(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        that("nothing comes", delivery != null);
        return delivery;
    }

    /** No message comes for the credit there is. */
    static void nothing(Receiver receiver) throws ClientException {
        var delivery = receiver.receive(NOTHING_MS, TimeUnit.MILLISECONDS);
        that("an unexpected message", delivery == null);
    }

    static void bodyIs(Object expected, Receiver receiver) throws ClientException {
        var delivery = receive(receiver);
        equal("body", delivery.message().body(), expected);
        delivery.accept();
    }

    /** The broker ends what is attempted with this condition. */
    static void refused(String condition, Callable<?> attempt) {
        equal("condition", conditionOf(attempt), condition);
    }

    private static String conditionOf(Callable<?> attempt) {
        try {
            attempt.call();
            return "no error";
        } catch (Exception thrown) {
            var error = errorIn(thrown instanceof ExecutionException ? thrown.getCause() : thrown);
            return error == null ? thrown.toString() : error.condition();
        }
    }

    private static ErrorCondition errorIn(Throwable thrown) {
        if (thrown instanceof ClientResourceRemotelyClosedException closed) {
            return closed.getErrorCondition();
        }
        return thrown instanceof ClientConnectionRemotelyClosedException closed
                ? closed.getErrorCondition() : null;
    }
}
