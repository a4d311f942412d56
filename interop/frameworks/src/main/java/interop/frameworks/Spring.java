package interop.frameworks;

import static interop.frameworks.Client.equal;
import static interop.frameworks.Client.ok;
import static interop.frameworks.Client.until;

import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.DefaultMessageListenerContainer;

/** Spring JMS: listener containers as Spring Boot makes them, which are transacted, and JmsTemplate. */
final class Spring {
    private final int port;
    private final CachingConnectionFactory connections;
    private final JmsTemplate template;

    private Spring(int port) {
        this.port = port;
        connections = new CachingConnectionFactory(Client.factory(port));
        template = new JmsTemplate(connections);
        template.setReceiveTimeout(Client.TIMEOUT_MS);
    }

    static void run(int port) throws Exception {
        var spring = new Spring(port);
        spring.transactedListener();
        spring.browses();
        spring.requests();
        spring.delays();
        spring.groups();
        spring.durableSubscription();
        spring.sharedSubscription();
        spring.connections.destroy();
    }

    private DefaultMessageListenerContainer container(String destination, MessageListener listener) {
        var container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(Client.factory(port));
        container.setDestinationName(destination);
        container.setMessageListener(listener);
        container.setSessionTransacted(true);
        return container;
    }

    private static DefaultMessageListenerContainer started(DefaultMessageListenerContainer container) {
        container.afterPropertiesSet();
        container.start();
        return container;
    }

    private static String text(Message message) {
        try {
            return ((TextMessage) message).getText();
        } catch (Exception wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    private static int number(Message message, String property) {
        try {
            return message.getIntProperty(property);
        } catch (Exception wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    /** What throws goes back, is counted, and dies at the delivery limit; all else is taken once. */
    private void transactedListener() throws Exception {
        List<String> taken = Collections.synchronizedList(new ArrayList<>());
        Map<String, List<Integer>> tries = new ConcurrentHashMap<>();
        var container = started(container("spring-in", message -> {
            String text = text(message);
            if (text.startsWith("poison")) {
                tries.computeIfAbsent(text, key -> Collections.synchronizedList(new ArrayList<>()))
                        .add(number(message, "JMSXDeliveryCount"));
                throw new IllegalStateException(text);
            }
            taken.add(text);
        }));
        for (int number = 0; number < 20; number++) {
            if (number % 10 == 5) {
                template.convertAndSend("spring-in", "poison " + number);
            }
            template.convertAndSend("spring-in", "good " + number);
        }
        until("20 good messages", () -> taken.size() >= 20);
        until("poison was tried", () -> tries.values().stream().mapToInt(List::size).sum() >= 6);
        Thread.sleep(Client.NOTHING_MS);
        container.shutdown();
        equal("each good one once", Set.copyOf(taken).size(), taken.size());
        equal("tries of poison", tries, Map.of("poison 5", List.of(1, 2, 3), "poison 15", List.of(1, 2, 3)));
        ok("spring: a transacted listener takes good messages once, poison dies after three tries");
    }

    private void browses() throws Exception {
        for (String text : List.of("1", "2", "3")) {
            template.convertAndSend("spring-browse", text);
        }
        List<String> seen = template.browse("spring-browse", (session, browser) -> {
            var texts = new ArrayList<String>();
            for (var messages = browser.getEnumeration(); messages.hasMoreElements(); ) {
                texts.add(text((Message) messages.nextElement()));
            }
            return texts;
        });
        equal("browsed", seen, List.of("1", "2", "3"));
        for (String text : List.of("1", "2", "3")) {
            equal("received", template.receiveAndConvert("spring-browse"), text);
        }
        ok("spring: JmsTemplate browses, and takes nothing by it");
    }

    private void requests() throws Exception {
        var container = started(container("spring-requests", message -> {
            try {
                template.send(message.getJMSReplyTo(), session -> session.createTextMessage("re: " + text(message)));
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong);
            }
        }));
        for (int number = 0; number < 5; number++) {
            String text = "question " + number;
            var answer = template.sendAndReceive("spring-requests", session -> session.createTextMessage(text));
            equal("the answer by a temporary queue", text(answer), "re: " + text);
        }
        container.shutdown();
        ok("spring: requests are answered by temporary queues");
    }

    private void delays() throws Exception {
        var late = new JmsTemplate(connections);
        late.setDeliveryDelay(1_000);
        long begun = System.nanoTime();
        late.convertAndSend("spring-late", "late");
        equal("it comes", template.receiveAndConvert("spring-late"), "late");
        long ms = (System.nanoTime() - begun) / 1_000_000;
        if (ms < 1_000 || ms > 1_500) {
            throw new AssertionError("it came after " + ms + " ms");
        }
        ok("spring: a delivery delay of one second");
    }

    private void groups() throws Exception {
        Map<String, Set<String>> threads = new ConcurrentHashMap<>();
        Map<String, List<Integer>> order = new ConcurrentHashMap<>();
        var container = container("spring-groups", message -> {
            try {
                String group = message.getStringProperty("JMSXGroupID");
                threads.computeIfAbsent(group, key -> ConcurrentHashMap.newKeySet())
                        .add(Thread.currentThread().getName());
                order.computeIfAbsent(group, key -> Collections.synchronizedList(new ArrayList<>()))
                        .add(message.getIntProperty("number"));
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong);
            }
        });
        container.setConcurrentConsumers(3);
        container.setMaxConcurrentConsumers(3);
        started(container);
        for (int number = 0; number < 60; number++) {
            int at = number;
            template.send("spring-groups", session -> {
                var message = session.createTextMessage("in a group");
                message.setStringProperty("JMSXGroupID", "g" + at % 6);
                message.setIntProperty("number", at);
                return message;
            });
        }
        until("all came", () -> order.values().stream().mapToInt(List::size).sum() == 60);
        container.shutdown();
        for (int group = 0; group < 6; group++) {
            var expect = new ArrayList<Integer>();
            for (int number = group; number < 60; number += 6) {
                expect.add(number);
            }
            equal("the order of a group", order.get("g" + group), expect);
            equal("consumers of a group", threads.get("g" + group).size(), 1);
        }
        ok("spring: the messages of a group go to one of three consumers, in order");
    }

    private DefaultMessageListenerContainer subscriber(MessageListener listener) {
        var container = container("spring.news", listener);
        container.setPubSubDomain(true);
        return container;
    }

    private void durableSubscription() throws Exception {
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        var topics = new JmsTemplate(connections);
        topics.setPubSubDomain(true);
        for (int round = 0; round < 2; round++) {
            var container = subscriber(message -> got.add(text(message)));
            container.setClientId("spring-client");
            container.setSubscriptionDurable(true);
            container.setDurableSubscriptionName("all-news");
            started(container);
            until("it is subscribed", container::isRegisteredWithDestination);
            topics.convertAndSend("spring.news", "while it listens " + round);
            int expect = 2 * round + 1;
            until("what it is there for", () -> got.size() >= expect);
            container.shutdown();
            topics.convertAndSend("spring.news", "while it is away " + round);
        }
        equal("got", Set.copyOf(got),
                Set.of("while it listens 0", "while it is away 0", "while it listens 1"));
        ok("spring: a durable subscription gets what came while it was away");
    }

    private void sharedSubscription() throws Exception {
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        Set<String> threads = ConcurrentHashMap.newKeySet();
        var container = subscriber(message -> {
            got.add(text(message));
            threads.add(Thread.currentThread().getName());
        });
        container.setSubscriptionShared(true);
        container.setSubscriptionName("shared-news");
        container.setConcurrentConsumers(2);
        started(container);
        until("it is subscribed", container::isRegisteredWithDestination);
        Thread.sleep(Client.NOTHING_MS);
        var topics = new JmsTemplate(connections);
        topics.setPubSubDomain(true);
        for (int number = 0; number < 40; number++) {
            topics.convertAndSend("spring.news", "shared " + number);
        }
        until("all came", () -> got.size() >= 40);
        Thread.sleep(Client.NOTHING_MS);
        container.shutdown();
        equal("each once", Set.copyOf(got).size(), got.size());
        equal("consumers that had some", threads.size(), 2);
        ok("spring: two consumers share a subscription");
    }
}
