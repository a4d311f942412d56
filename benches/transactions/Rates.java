import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Publishes durable messages of 1 KiB by Qpid JMS: {@code Rates URI ADDRESS plain|transacted SECONDS}. Plain: up to 400 without an
 * outcome a connection. Transacted: 100 a commit. Prints how many a second were confirmed, after a warm-up of as long.
 */
public final class Rates {
    private static final int CONNECTIONS = 4;
    private static final int WINDOW = 400;
    private static final int COMMIT = 100;

    public static void main(String[] arguments) throws Exception {
        var factory = new JmsConnectionFactory("guest", "guest", arguments[0]);
        boolean transacted = arguments[2].equals("transacted");
        long millis = Math.round(Double.parseDouble(arguments[3]) * 1000);
        var confirmed = new AtomicLong();
        long end = System.currentTimeMillis() + 2 * millis;
        var threads = Executors.newFixedThreadPool(CONNECTIONS);
        var tasks = new ArrayList<Callable<Void>>();
        for (int at = 0; at < CONNECTIONS; at++) {
            tasks.add(() -> publish(factory, arguments[1], transacted, end, confirmed));
        }
        var running = new ArrayList<java.util.concurrent.Future<Void>>();
        for (var task : tasks) {
            running.add(threads.submit(task));
        }
        Thread.sleep(millis);
        long before = confirmed.get();
        long begun = System.nanoTime();
        Thread.sleep(millis - 50);
        double rate = (confirmed.get() - before) * 1e9 / (System.nanoTime() - begun);
        for (var one : running) {
            one.get();
        }
        System.out.println(Math.round(rate));
        System.exit(0);
    }

    private static Void publish(JmsConnectionFactory factory, String address, boolean transacted, long end,
            AtomicLong confirmed) throws Exception {
        try (Connection connection = factory.createConnection()) {
            var session = transacted ? connection.createSession(true, Session.SESSION_TRANSACTED)
                    : connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            var producer = session.createProducer(session.createQueue(address));
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            var message = session.createBytesMessage();
            message.writeBytes(new byte[1024]);
            var window = new Semaphore(WINDOW);
            var counts = new CompletionListener() {
                @Override
                public void onCompletion(Message sent) {
                    confirmed.incrementAndGet();
                    window.release();
                }

                @Override
                public void onException(Message sent, Exception wrong) {
                    wrong.printStackTrace();
                    System.exit(1);
                }
            };
            while (System.currentTimeMillis() < end) {
                if (!transacted) {
                    window.acquire();
                    var one = session.createBytesMessage();
                    one.writeBytes(new byte[1024]);
                    producer.send(one, counts);
                    continue;
                }
                for (int at = 0; at < COMMIT; at++) {
                    producer.send(message);
                }
                session.commit();
                confirmed.addAndGet(COMMIT);
            }
            window.acquire(WINDOW);
        }
        return null;
    }
}
