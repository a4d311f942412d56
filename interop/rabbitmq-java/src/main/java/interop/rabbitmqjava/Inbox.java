package interop.rabbitmqjava;

import static interop.Check.TIMEOUT_MS;
import static interop.Check.equal;
import static interop.Check.that;

import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.ConsumerBuilder;
import com.rabbitmq.client.amqp.Message;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A consumer whose messages wait until they are asked for. */
final class Inbox implements AutoCloseable {
    private static final long NOTHING_MS = 300;

    /** A message with what settles it. */
    record Letter(Consumer.Context context, Message message) {
        String text() {
            return new String(message.body());
        }
    }

    final Consumer consumer;
    private final BlockingQueue<Letter> letters = new LinkedBlockingQueue<>();

    Inbox(Connection connection, String queue) {
        this(connection.consumerBuilder().queue(queue));
    }

    Inbox(ConsumerBuilder builder) {
        consumer = builder.messageHandler((context, message) ->
                letters.add(new Letter(context, message))).build();
    }

    Letter take() throws InterruptedException {
        var letter = letters.poll(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        that("nothing comes", letter != null);
        return letter;
    }

    void textIs(String expected) throws InterruptedException {
        var letter = take();
        equal("text", letter.text(), expected);
        letter.context().accept();
    }

    void nothing() throws InterruptedException {
        that("an unexpected message", letters.poll(NOTHING_MS, TimeUnit.MILLISECONDS) == null);
    }

    @Override
    public void close() {
        consumer.close();
    }
}
