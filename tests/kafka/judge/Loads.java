// What Kafka's own LogManager makes of log dirs as it loads them: one JSON object a line on standard input, one
// JSON line back for each. Fields: "dir", "config", "now_ms", "clean" (null: as the marker in the dir says).
// Answers "dir_failed" (the exceptions of its checkpoints), and for each folder its state or "error", and "files".
// The dirs are changed in place. tests/kafka/load_judge.py is the other side.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import kafka.log.LogManager;

import scala.jdk.javaapi.CollectionConverters;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.server.util.FileLock;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class Loads {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                answer = load(JSON.readTree(line));
            } catch (Throwable error) {
                answer = failure(error);
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    static Map<String, Object> failure(Throwable error) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("error", error.getClass().getSimpleName());
        facts.put("message", String.valueOf(error.getMessage()));
        facts.put("where", Arrays.stream(error.getStackTrace()).limit(6).map(Object::toString).toList());
        facts.put("is_io", error instanceof java.io.IOException || error.getCause() instanceof java.io.IOException
            && error instanceof org.apache.kafka.common.errors.KafkaStorageException);
        return facts;
    }

    static Object load(JsonNode command) throws Exception {
        File dir = new File(command.get("dir").asText());
        Map<String, String> config = new HashMap<>();
        command.path("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
        LogConfig logConfig = new LogConfig(config);
        LogDirFailureChannel channel = new LogDirFailureChannel(10);
        Still time = new Still(command.get("now_ms").asLong());
        Map<String, Object> answer = new LinkedHashMap<>();
        List<String> failed = new ArrayList<>();
        CleanShutdownFileHandler marker = new CleanShutdownFileHandler(dir.getPath());
        boolean clean = command.path("clean").isBoolean() ? command.get("clean").asBoolean() : marker.exists();
        Map<TopicPartition, Long> recoveryPoints = checkpoint(dir, "recovery-point-offset-checkpoint", channel, failed);
        Map<TopicPartition, Long> logStarts = checkpoint(dir, "log-start-offset-checkpoint", channel, failed);
        answer.put("checkpoints", failed);
        answer.put("offline", channel.hasOfflineLogDir(dir.getAbsolutePath()));
        Map<String, Object> folders = new TreeMap<>();
        File[] found = dir.listFiles(File::isDirectory);
        Arrays.sort(found);
        for (File folder : found) {
            // Each by its own manager: the failure of one must not be the next one's.
            LogManager manager = manager(dir, logConfig, time);
            try {
                folders.put(folder.getName(), one(manager, folder, clean, recoveryPoints, logStarts, logConfig));
            } finally {
                for (FileLock lock : CollectionConverters.asJava(manager.dirLocks())) {
                    lock.destroy();
                }
            }
        }
        answer.put("folders", folders);
        return answer;
    }

    static LogManager manager(File dir, LogConfig config, Time time) {
        return new LogManager(
            CollectionConverters.asScala(List.of(dir)).toSeq(), CollectionConverters.asScala(List.<File>of()).toSeq(),
            resource -> new Properties(), config, new CleanerConfig(false), 1, 1000L, 1000L, 1000L, 1000L,
            900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new Now(), new BrokerTopicStats(false),
            new LogDirFailureChannel(10), time, false, 30_000L, null);
    }

    static Map<TopicPartition, Long> checkpoint(
            File dir, String name, LogDirFailureChannel channel, List<String> failed) throws Exception {
        try {
            return new OffsetCheckpointFile(new File(dir, name), channel).read();
        } catch (Exception error) {
            failed.add(name + " " + error.getClass().getSimpleName());
            return Map.of();
        }
    }

    static Object one(
            LogManager manager, File folder, boolean clean, Map<TopicPartition, Long> recoveryPoints,
            Map<TopicPartition, Long> logStarts, LogConfig config) throws Exception {
        Map<String, Object> answer = new LinkedHashMap<>();
        UnifiedLog log = null;
        try {
            log = manager.loadLog(
                folder, clean, recoveryPoints, logStarts, config, scala.collection.immutable.Map$.MODULE$.empty(),
                new ConcurrentHashMap<>(), ignored -> false);
            answer.put("log_start", log.logStartOffset());
            answer.put("log_end", log.logEndOffset());
            answer.put("recovery_point", log.recoveryPoint());
            answer.put("segments", log.logSegments().stream().map(segment -> segment.baseOffset()).toList());
            answer.put("topic_id", log.topicId().map(Object::toString).orElse(null));
            answer.put("epochs", log.leaderEpochCache().epochEntries().stream()
                .map(entry -> List.of((long) entry.epoch(), entry.startOffset())).toList());
        } catch (Throwable error) {
            answer.putAll(failure(error));
        }
        answer.put("files", files(folder));
        if (log != null) {
            log.closeHandlers();
        }
        return answer;
    }

    static Map<String, Object> files(File folder) throws Exception {
        Map<String, Object> files = new TreeMap<>();
        for (File file : folder.listFiles(File::isFile)) {
            byte[] data = Files.readAllBytes(file.toPath());
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(data);
            files.put(file.getName(), List.of(data.length, HexFormat.of().formatHex(digest)));
        }
        return files;
    }
}

/** A clock that stands still. */
class Still implements Time {
    final long now;

    Still(long now) {
        this.now = now;
    }

    public long milliseconds() {
        return now;
    }

    public long nanoseconds() {
        return TimeUnit.MILLISECONDS.toNanos(now);
    }

    public void sleep(long ms) {
    }

    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException();
    }
}

/** Runs what is due at once, and nothing later. */
class Now implements Scheduler {
    public void startup() {
    }

    public void shutdown() {
    }

    public void resizeThreadPool(int newSize) {
    }

    public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
        if (delayMs <= 0) {
            task.run();
        }
        return new Never();
    }
}

class Never implements ScheduledFuture<Object> {
    public long getDelay(TimeUnit unit) {
        return Long.MAX_VALUE;
    }

    public int compareTo(Delayed other) {
        return 0;
    }

    public boolean cancel(boolean mayInterrupt) {
        return true;
    }

    public boolean isCancelled() {
        return true;
    }

    public boolean isDone() {
        return false;
    }

    public Object get() {
        return null;
    }

    public Object get(long timeout, TimeUnit unit) {
        return null;
    }
}
