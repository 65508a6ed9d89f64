// Whole nodes, started in this JVM as kafka.Kafka starts them: one JSON object a line on standard input, one JSON line
// back for each. tests/kafka/node_judge.py is the other side.
// Command "format": fields "properties" (a file), "cluster". Formats the log dirs as kafka-storage.sh does.
// Command "start": fields "nodes" (properties of each; the last one is asked, those before it must start), "fill"
// (topics to make: "name", "partitions", "records", "config"), "copy" (pairs of paths: copies made while the nodes run).
// Answers whether the node "starts", its "exit" status with the "message" and the first lines of errors, the "logs" of
// its broker with start and end, the log dirs that are "offline", and the "folders" of each log dir.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import kafka.server.BrokerServer;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;

import scala.Option;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Time;

public class Nodes {
    static final ObjectMapper JSON = new ObjectMapper();
    static final long SETTLING_MS = 1500;
    static final PrintStream ERRORS = System.err;
    static volatile CompletableFuture<String> ended = new CompletableFuture<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Ends.become();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                JsonNode command = JSON.readTree(line);
                answer = command.get("command").asText().equals("format") ? format(command) : start(command);
            } catch (Throwable error) {
                answer = failure(error);
            }
            out.println(JSON.writeValueAsString(answer));
        }
        Runtime.getRuntime().halt(0);
    }

    static Map<String, Object> failure(Throwable error) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("error", error.getClass().getSimpleName());
        facts.put("message", String.valueOf(error.getMessage()));
        facts.put("where", Arrays.stream(error.getStackTrace()).limit(6).map(Object::toString).toList());
        return facts;
    }

    static Object format(JsonNode command) {
        List<String> words = new ArrayList<>(List.of(
            "format", "-t", command.get("cluster").asText(), "-c", command.get("properties").asText()));
        command.path("more").forEach(each -> words.add(each.asText()));
        int status = kafka.tools.StorageTool.execute(words.toArray(String[]::new), System.err);
        return Map.of("status", status);
    }

    static Object start(JsonNode command) throws Exception {
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        ended = new CompletableFuture<>();
        List<KafkaRaftServer> servers = new ArrayList<>();
        Map<String, Object> answer = new LinkedHashMap<>();
        CompletableFuture<String> started = new CompletableFuture<>();
        long seconds = command.path("seconds").asLong(60);
        Thread starter = new Thread(() -> {
            try {
                for (JsonNode each : command.get("nodes")) {
                    KafkaRaftServer server = new KafkaRaftServer(config(each), Time.SYSTEM);
                    servers.add(server);
                    server.startup();
                }
                started.complete("");
            } catch (Throwable error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                started.complete(error.getClass().getSimpleName() + ": " + error.getMessage()
                    + (cause == error ? "" : " <- " + cause.getClass().getSimpleName() + ": " + cause.getMessage()));
            }
        });
        starter.start();
        String said = "no answer within " + seconds + " s";
        boolean hangs = false;
        try {
            said = (String) CompletableFuture.anyOf(started, ended).get(seconds, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            hangs = true;
        }
        if (said.isEmpty()) {
            fill(command);
            try {
                said = ended.get(SETTLING_MS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException fine) {
                // The node still runs.
            }
        }
        answer.put("starts", said.isEmpty());
        answer.put("hangs", hangs);
        answer.put("message", said);
        JsonNode last = command.get("nodes").get(command.get("nodes").size() - 1);
        if (said.isEmpty()) {
            broker(servers.get(servers.size() - 1), answer);
        }
        Map<String, Object> folders = new TreeMap<>();
        for (String dir : last.get("log.dirs").asText().split(",")) {
            String[] names = new File(dir).list((where, name) -> new File(where, name).isDirectory());
            folders.put(dir, names == null ? List.of() : Stream.of(names).sorted().toList());
        }
        answer.put("folders", folders);
        for (JsonNode pair : command.path("copy")) {
            copy(Path.of(pair.get(0).asText()), Path.of(pair.get(1).asText()));
        }
        System.setErr(ERRORS);
        answer.put("errors", Stream.of(errors.toString(StandardCharsets.UTF_8).split("\n"))
            .filter(line -> line.contains("ERROR") || line.contains("Exception"))
            .limit(12).map(line -> line.substring(0, Math.min(line.length(), 400))).toList());
        if (!said.isEmpty()) {
            return answer;  // what is left of the node would disturb the next one: the other side ends this JVM
        }
        Thread stopper = new Thread(() -> {
            for (int at = servers.size() - 1; at >= 0; at--) {
                try {
                    servers.get(at).shutdown();
                    servers.get(at).awaitShutdown();
                } catch (Throwable error) {
                    // of a node that did not start
                }
            }
        });
        stopper.start();
        stopper.join(60_000);
        return answer;
    }

    static KafkaConfig config(JsonNode properties) {
        Properties props = new Properties();
        properties.properties().forEach(each -> props.put(each.getKey(), each.getValue().asText()));
        return new KafkaConfig(props, false);
    }

    static void broker(KafkaRaftServer server, Map<String, Object> answer) throws Exception {
        Field field = KafkaRaftServer.class.getDeclaredField("broker");
        field.setAccessible(true);
        Option<?> broker = (Option<?>) field.get(server);
        Map<String, Object> logs = new TreeMap<>();
        List<String> live = new ArrayList<>();
        List<String> led = new ArrayList<>();
        if (broker.isDefined()) {
            BrokerServer running = (BrokerServer) broker.get();
            Logs.of(running, logs, live, led);
        }
        answer.put("logs", logs);
        answer.put("live", live);
        answer.put("led", led.stream().sorted().toList());
    }

    static void fill(JsonNode command) throws Exception {
        if (!command.has("fill")) {
            return;
        }
        Map<String, Object> to = new HashMap<>();
        to.put("bootstrap.servers", command.get("bootstrap").asText());
        to.put("key.serializer", StringSerializer.class);
        to.put("value.serializer", StringSerializer.class);
        try (Admin admin = Admin.create(to); KafkaProducer<String, String> producer = new KafkaProducer<>(to)) {
            for (JsonNode topic : command.get("fill")) {
                Map<String, String> config = new HashMap<>();
                topic.path("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
                String name = topic.get("name").asText();
                int partitions = topic.get("partitions").asInt();
                admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(config))).all().get();
                for (int number = 0; number < topic.get("records").asInt(); number++) {
                    producer.send(new ProducerRecord<>(
                        name, number % partitions, "k" + number % 7, "a value of the record " + number));
                }
                producer.flush();
            }
        }
        Thread.sleep(command.path("wait_ms").asLong(0));
    }

    static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> found = Files.walk(from)) {
            for (Path each : (Iterable<Path>) found::iterator) {
                Path target = to.resolve(from.relativize(each).toString());
                if (Files.isDirectory(each)) {
                    Files.createDirectories(target);
                } else {
                    Files.copy(each, target);
                }
            }
        }
    }
}

/** What differs between releases is found by name. */
class Logs {
    static void of(
            BrokerServer broker, Map<String, Object> logs, List<String> live, List<String> led) throws Exception {
        Object manager = broker.getClass().getMethod("logManager").invoke(broker);
        for (Object each : items(manager.getClass().getMethod("allLogs").invoke(manager))) {
            org.apache.kafka.storage.internals.log.UnifiedLog log = (org.apache.kafka.storage.internals.log.UnifiedLog) each;
            logs.put(log.dir().getPath(), List.of(log.logStartOffset(), log.logEndOffset()));
            Option<?> partition = broker.replicaManager().onlinePartition(log.topicPartition());
            if (partition.isDefined() && ((kafka.cluster.Partition) partition.get()).isLeader()) {
                led.add(log.topicPartition().toString());
            }
        }
        for (Object each : items(manager.getClass().getMethod("liveLogDirs").invoke(manager))) {
            live.add(each.toString());
        }
    }

    static Iterable<?> items(Object found) {
        return found instanceof Iterable<?> items ? items
            : scala.jdk.javaapi.CollectionConverters.asJava(((scala.collection.Iterable<?>) found));
    }
}

/** The process would end. */
class Ended extends RuntimeException {
}

class Ends {
    /** Take over Kafka's exits; the class moved after 4.3. */
    static void become() throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        } catch (ClassNotFoundException moved) {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object ends = java.lang.reflect.Proxy.newProxyInstance(
            procedure.getClassLoader(), new Class<?>[] {procedure}, (proxy, method, words) -> {
                Nodes.ended.complete("exit " + words[0] + (words[1] == null ? "" : ": " + words[1]));
                throw new Ended();
            });
        exit.getMethod("setExitProcedure", procedure).invoke(null, ends);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, ends);
    }
}
