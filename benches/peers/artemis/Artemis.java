import java.nio.file.Path;
import java.util.Set;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.config.CoreAddressConfiguration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;

/** ActiveMQ Artemis with its journal on disk and ten queues that have a dead letter queue each. */
public final class Artemis {
  private static final int QUEUES = 10;

  public static void main(String[] arguments) throws Exception {
    Path directory = Path.of(arguments[0]);
    String address = "127.0.0.1:" + arguments[1];
    ConfigurationImpl configuration = new ConfigurationImpl();
    configuration.setSecurityEnabled(false);
    configuration.setPersistenceEnabled(true);
    configuration.setJournalDirectory(directory.resolve("journal").toString());
    configuration.setBindingsDirectory(directory.resolve("bindings").toString());
    configuration.setLargeMessagesDirectory(directory.resolve("large").toString());
    configuration.setPagingDirectory(directory.resolve("paging").toString());
    configuration.setMaxDiskUsage(-1); // whatever else fills this disk
    configuration.addAcceptorConfiguration("amqp", "tcp://" + address + "?protocols=AMQP");
    for (int number = 0; number < QUEUES; number++) {
      String name = "bench-" + number;
      String dead = name + "-dead";
      AddressSettings settings = new AddressSettings();
      settings.setDeadLetterAddress(SimpleString.of(dead));
      configuration.addAddressSetting(name, settings);
      for (String each : Set.of(name, dead)) {
        QueueConfiguration queue = QueueConfiguration.of(each).setRoutingType(RoutingType.ANYCAST);
        configuration.addAddressConfiguration(new CoreAddressConfiguration()
            .setName(each).addRoutingType(RoutingType.ANYCAST).addQueueConfig(queue));
      }
    }
    EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
    broker.setConfiguration(configuration);
    ProcessHandle.current().parent().orElseThrow().onExit().thenRun(() -> System.exit(0));
    broker.start();
    System.out.println("listening amqp " + address);
  }
}
