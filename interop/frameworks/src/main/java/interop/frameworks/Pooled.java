package interop.frameworks;

import static interop.frameworks.Client.equal;
import static interop.frameworks.Client.ok;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.messaginghub.pooled.jms.JmsPoolConnectionFactory;

/** Pooled JMS: connections and sessions are borrowed and given back, over a kill of the broker. */
final class Pooled {
    private static final int THREADS = 8;
    private static final int BATCHES = 60;
    private static final int BATCH = 10;

    static void run(int port) throws Exception {
        var pool = new JmsPoolConnectionFactory();
        pool.setConnectionFactory(Client.factory(port));
        pool.setMaxConnections(3);
        var committed = new AtomicInteger();
        var unsure = new AtomicInteger();
        var threads = Executors.newFixedThreadPool(THREADS);
        var tasks = new ArrayList<Callable<Void>>();
        for (int thread = 0; thread < THREADS; thread++) {
            int of = thread;
            tasks.add(() -> {
                for (int batch = 0; batch < BATCHES; batch++) {
                    commit(pool, of * BATCHES + batch, committed, unsure);
                }
                return null;
            });
        }
        for (var done : threads.invokeAll(tasks)) {
            done.get();
        }
        threads.shutdown();
        var found = read(pool);
        int doubles = 0;
        for (int number = 0; number < THREADS * BATCHES * BATCH; number++) {
            int times = found.getOrDefault(Integer.toString(number), 0);
            if (times == 0) {
                throw new AssertionError("message " + number + " is lost");
            }
            doubles += times - 1;
        }
        if (doubles > unsure.get() * BATCH) {
            throw new AssertionError(doubles + " doubles of " + unsure + " commits without an answer");
        }
        equal("messages", found.size(), THREADS * BATCHES * BATCH);
        pool.stop();
        ok("pooled-jms: " + found.size() + " messages in transactions of " + BATCH + " over a kill, none lost, "
                + doubles + " doubles of " + unsure + " commits without an answer");
    }

    /** Sends a batch in a transaction, again until its commit is answered. */
    private static void commit(JmsPoolConnectionFactory pool, int batch, AtomicInteger committed, AtomicInteger unsure)
            throws Exception {
        for (long end = System.currentTimeMillis() + Client.TIMEOUT_MS; ; ) {
            boolean commits = false;
            try (Connection connection = pool.createConnection();
                    Session session = connection.createSession(true, Session.SESSION_TRANSACTED)) {
                var producer = session.createProducer(session.createQueue("pooled"));
                for (int at = 0; at < BATCH; at++) {
                    producer.send(session.createTextMessage(Integer.toString(batch * BATCH + at)));
                }
                commits = true;
                session.commit();
                if (committed.incrementAndGet() == THREADS * BATCHES / 3) {
                    System.out.println("kill"); // whoever reads this kills the broker and starts it again
                }
                return;
            } catch (JMSException lost) {
                unsure.addAndGet(commits ? 1 : 0);
                if (System.currentTimeMillis() > end) {
                    throw lost;
                }
                Thread.sleep(100);
            }
        }
    }

    private static Map<String, Integer> read(JmsPoolConnectionFactory pool) throws Exception {
        var found = new HashMap<String, Integer>();
        try (Connection connection = pool.createConnection();
                Session session = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            connection.start();
            var consumer = session.createConsumer(session.createQueue("pooled"));
            for (List<String> some = texts(consumer); !some.isEmpty(); some = texts(consumer)) {
                some.forEach(text -> found.merge(text, 1, Integer::sum));
                session.commit();
            }
        }
        return found;
    }

    private static List<String> texts(jakarta.jms.MessageConsumer consumer) throws JMSException {
        var texts = new ArrayList<String>();
        while (texts.size() < 100 && consumer.receive(1_000) instanceof TextMessage message) {
            texts.add(message.getText());
        }
        return texts;
    }

    private Pooled() {}
}
