import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.qpid.server.SystemLauncher;

/** Qpid Broker-J with its store on disk and ten queues that have a dead letter queue each. */
public final class BrokerJ {
  private static final int QUEUES = 10;
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    Path directory = Path.of(arguments[0]).toAbsolutePath();
    int port = Integer.parseInt(arguments[1]);
    Path written = directory.resolve("initial.json");
    JSON.writeValue(written.toFile(), configuration(port));
    Map<String, Object> attributes = new HashMap<>();
    attributes.put("type", "JSON");
    attributes.put("initialConfigurationLocation", written.toString());
    attributes.put("context", Map.of("qpid.work_dir", directory.toString()));
    System.setProperty("derby.stream.error.file", directory.resolve("derby.log").toString());
    ProcessHandle.current().parent().orElseThrow().onExit().thenRun(() -> System.exit(0));
    new SystemLauncher().startup(attributes);
    System.out.println("listening amqp 127.0.0.1:" + port);
  }

  private static Map<String, Object> configuration(int port) throws Exception {
    Map<String, Object> users = Map.of("name", "guest", "type", "managed", "password", "guest");
    Map<String, Object> login = Map.of("name", "plain", "type", "Plain",
        "secureOnlyMechanisms", List.of(), "users", List.of(users));
    // Whatever host a client names in its open.
    Map<String, Object> alias = Map.of("name", "any", "type", "patternMatchingAlias",
        "pattern", ".*", "virtualHostNode", "default");
    Map<String, Object> amqp = Map.of("name", "AMQP", "port", port, "bindingAddress", "127.0.0.1",
        "protocols", List.of("AMQP_1_0"), "authenticationProvider", "plain",
        "virtualhostaliases", List.of(alias));
    Map<String, Object> host = Map.of("type", "DERBY", "queues", queues());
    Map<String, Object> node = Map.of("name", "default", "type", "JSON",
        "defaultVirtualHostNode", true,
        "virtualHostInitialConfiguration", JSON.writeValueAsString(host));
    return Map.of("name", "broker", "modelVersion", "9.1",
        "authenticationproviders", List.of(login), "ports", List.of(amqp),
        "virtualhostnodes", List.of(node));
  }

  private static List<Map<String, Object>> queues() {
    List<Map<String, Object>> queues = new ArrayList<>();
    for (int number = 0; number < QUEUES; number++) {
      String name = "bench-" + number;
      String dead = name + "-dead";
      queues.add(Map.of("name", dead, "type", "standard"));
      // A rejection counts as a failed delivery, and one of those is one too many.
      queues.add(Map.of("name", name, "type", "standard", "maximumDeliveryAttempts", 1,
          "alternateBinding", Map.of("destination", dead)));
    }
    return queues;
  }
}
