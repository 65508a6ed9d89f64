// What Kafka's own LogManager makes of log dirs as it loads them: one JSON object a line on standard input, one
// JSON line back for each. The dirs are changed in place. tests/kafka/load_judge.py is the other side; it adds the class
// Managers, of which each version of Kafka has its own.
// Command "load": fields "dir", "config", "now_ms", "clean" (null: as the marker in the dir says). Each folder is loaded
// by a manager of its own. Answers the exceptions of the dir's "checkpoints", and for each of the "folders" its state or
// "error", and "files".
// Command "start": fields "dirs", "metadata_dir", "node_id", "broker" (properties), "now_ms". A start as in
// KafkaRaftServer, KafkaRaftClient, MetadataLoader, BrokerMetadataPublisher and ReplicaManager, of a node that is the only
// controller, up to where replicas begin to fetch. Answers "error" with its "stage", or the dirs that are "offline" and
// whether the broker "halts"; the "logs" by role, the "created" ones, how many are "unserved"; and the "files" of each dir.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.channels.ClosedChannelException;
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
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;

import scala.jdk.javaapi.CollectionConverters;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;  // where most are from 4.4 on
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.image.TopicsImage;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.FileQuorumStateStore;
import org.apache.kafka.raft.Isolation;
import org.apache.kafka.raft.MetadataLogConfig;
import org.apache.kafka.raft.internals.KafkaRaftLog;
import org.apache.kafka.raft.internals.RecordsIterator;
import org.apache.kafka.snapshot.RecordsSnapshotReader;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.server.util.FileLock;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.LazyOffsetCheckpoints;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.slf4j.LoggerFactory;

public class Loads {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                JsonNode command = JSON.readTree(line);
                answer = switch (command.get("command").asText()) {
                    case "start" -> Start.run(command);
                    case "load" -> load(command);
                    default -> Map.of();
                };
            } catch (Throwable error) {
                answer = failure(error);
            }
            out.println(JSON.writeValueAsString(answer));
        }
        System.exit(0);  // a start that failed leaves threads behind
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
            Managers manager = Managers.of(dir, logConfig, time);
            try {
                folders.put(folder.getName(), one(manager, folder, clean, recoveryPoints, logStarts, logConfig));
            } finally {
                for (FileLock lock : manager.locks()) {
                    lock.destroy();
                }
            }
        }
        answer.put("folders", folders);
        return answer;
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
            Managers manager, File folder, boolean clean, Map<TopicPartition, Long> recoveryPoints,
            Map<TopicPartition, Long> logStarts, LogConfig config) throws Exception {
        Map<String, Object> answer = new LinkedHashMap<>();
        UnifiedLog log = null;
        try {
            log = manager.load(folder, clean, recoveryPoints, logStarts, config);
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
            Managers.close(log);
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

/** A whole start. */
class Start {
    static Object run(JsonNode command) throws Exception {
        List<File> dirs = new ArrayList<>();
        command.get("dirs").forEach(each -> dirs.add(new File(each.asText())));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("halts", false);
        answer.put("offline", List.of());
        Exit.setHaltProcedure((status, message) -> {
            throw new Halted();
        });
        Managers manager = null;
        String stage = "log dirs";
        try {
            KafkaConfig config = config(command, dirs);
            MetaPropertiesEnsemble ensemble =
                KafkaRaftServer.initializeLogDirs(config, LoggerFactory.getLogger(Start.class), "")._1();
            stage = "metadata log";
            File metadata = new File(command.get("metadata_dir").asText(), "__cluster_metadata-0");
            List<Consumer<MetadataDelta>> changes;
            boolean hasSnapshot;
            try (KafkaRaftLog log = KafkaRaftLog.createLog(
                    new TopicPartition("__cluster_metadata", 0), Uuid.METADATA_TOPIC_ID, metadata,
                    new Still(command.get("now_ms").asLong()), new Now(), new MetadataLogConfig(config),
                    command.get("node_id").asInt())) {
                stage = "metadata";
                hasSnapshot = log.latestSnapshotId().isPresent() && log.latestSnapshotId().get().offset() > 0;
                changes = Metadata.of(log);
            }
            stage = "quorum state";
            new FileQuorumStateStore(new File(metadata, "quorum-state")).readElectionState();
            stage = "metadata";
            MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
            changes.forEach(each -> each.accept(delta));
            MetadataImage image = delta.apply(MetadataProvenance.EMPTY);
            if (hasSnapshot) {
                image.features().metadataVersionOrThrow();  // as its publishers do
            }
            TopicsImage topics = image.topics();
            stage = "log manager";
            LogDirFailureChannel channel = new LogDirFailureChannel(dirs.size());
            manager = Managers.of(config, ensemble, new Still(command.get("now_ms").asLong()), channel);
            stage = "loading";
            // What BrokerMetadataPublisher does with its log manager at first.
            manager.start(topics, command.get("node_id").asInt());
            stage = "offline dirs";
            List<String> offline = new ArrayList<>();
            answer.put("offline", offline);
            // The thread of ReplicaManager that does this starts before the first partitions come; a node may be slower.
            handleFailures(manager, channel, dirs, config.metadataLogDir(), offline);
            stage = "replicas";
            replicas(manager, topics, channel, command.get("node_id").asInt(), answer);
            stage = "offline dirs";
            handleFailures(manager, channel, dirs, config.metadataLogDir(), offline);
        } catch (Halted halted) {
            answer.put("halts", true);
        } catch (Throwable error) {
            answer.putAll(Loads.failure(error));
            answer.put("stage", stage);
        }
        answer.put("failure", answer.remove("error"));
        answer.put("logs", manager == null ? Map.of() : logs(manager));
        Map<String, Object> files = new TreeMap<>();
        boolean isLoading = answer.get("failure") != null;  // other logs may still be
        for (File dir : isLoading ? List.<File>of() : dirs) {
            Map<String, Object> folders = new TreeMap<>();
            for (File folder : dir.listFiles(File::isDirectory)) {
                folders.put(folder.getName(), Loads.files(folder));
            }
            files.put(dir.getPath(), folders);
        }
        answer.put("files", files);
        if (manager != null) {
            manager.logs().forEach(Managers::close);
            for (FileLock lock : manager.locks()) {
                try {
                    lock.destroy();
                } catch (ClosedChannelException error) {
                    // of a log dir that went offline
                }
            }
        }
        return answer;
    }

    static KafkaConfig config(JsonNode command, List<File> dirs) {
        Properties props = new Properties();
        props.put("process.roles", "broker");
        props.put("node.id", command.get("node_id").asText());
        props.put("controller.quorum.voters", "4711@localhost:9");
        props.put("controller.listener.names", "CONTROLLER");
        props.put("listeners", "PLAINTEXT://localhost:0");
        props.put("log.dirs", String.join(",", dirs.stream().map(File::getPath).toList()));
        props.put("metadata.log.dir", command.get("metadata_dir").asText());
        props.put("log.cleaner.enable", "false");
        command.get("broker").properties().forEach(each -> props.put(each.getKey(), each.getValue().asText()));
        return new KafkaConfig(props, false);
    }

    /** What ReplicaManager does with the partitions of the node, and the log cleaner at first. */
    static void replicas(
            Managers manager, TopicsImage topics, LogDirFailureChannel channel, int node, Map<String, Object> answer)
            throws Exception {
        Map<String, OffsetCheckpointFile> watermarks = new HashMap<>();
        Map<File, OffsetCheckpointFile> cleaned = new LinkedHashMap<>();
        for (File dir : manager.liveDirs()) {
            watermarks.put(
                dir.getAbsolutePath(), new OffsetCheckpointFile(new File(dir, "replication-offset-checkpoint"), channel));
            cleaned.put(dir, new OffsetCheckpointFile(new File(dir, "cleaner-offset-checkpoint"), channel));
        }
        LazyOffsetCheckpoints checkpoints = new LazyOffsetCheckpoints(watermarks);
        List<String> created = new ArrayList<>();
        int unserved = 0;
        for (TopicImage topic : topics.topicsById().values()) {
            for (Map.Entry<Integer, PartitionRegistration> each : topic.partitions().entrySet()) {
                TopicPartition partition = new TopicPartition(topic.name(), each.getKey());
                PartitionRegistration found = each.getValue();
                int at = -1;
                for (int place = 0; place < found.replicas.length; place++) {
                    at = found.replicas[place] == node ? place : at;
                }
                if (at < 0) {
                    continue;
                }
                Uuid directory = found.directories[at];
                if (!manager.isOnline(directory) && manager.hasOffline()
                        && !directory.equals(org.apache.kafka.common.DirectoryId.UNASSIGNED)) {
                    continue;
                }
                boolean isNew = !manager.has(partition);
                try {
                    UnifiedLog log = manager.getOrCreate(partition, topic.id(), directory);
                    if (isNew) {
                        created.add(log.dir().getPath());
                    }
                    checkpoints.fetch(log.parentDir(), partition);
                } catch (KafkaStorageException error) {
                    // its log dir goes offline
                } catch (Throwable error) {
                    unserved++;
                    answer.put("unserved_because", error + " " + Arrays.toString(error.getStackTrace()));
                }
            }
        }
        answer.put("created", created);
        answer.put("unserved", unserved);
        boolean dies = false;
        for (OffsetCheckpointFile each : cleaned.values()) {
            try {
                each.read();
            } catch (KafkaStorageException error) {
                // its log dir goes offline
            } catch (Throwable error) {
                dies = true;
            }
        }
        answer.put("cleaner_dies", dies);
    }

    /** What ReplicaManager's thread does with log dirs that failed. */
    static void handleFailures(
            Managers manager, LogDirFailureChannel channel, List<File> dirs, String metadataDir, List<String> offline) {
        for (File dir : dirs) {
            if (channel.hasOfflineLogDir(dir.getAbsolutePath()) && !offline.contains(dir.getPath())) {
                offline.add(dir.getPath());
                manager.fail(dir.getAbsolutePath());
                if (dir.getAbsolutePath().equals(new File(metadataDir).getAbsolutePath())) {
                    throw new Halted();
                }
            }
        }
    }

    static Map<String, Object> logs(Managers manager) {
        Map<String, Object> logs = new TreeMap<>();
        manager.logs().forEach(
            log -> logs.put(log.dir().getPath(), List.of(log.logStartOffset(), log.logEndOffset())));
        return logs;
    }
}

/** The metadata as KafkaRaftClient and MetadataLoader read it, the latter as that of a controller: all faults end it. */
class Metadata {
    static List<Consumer<MetadataDelta>> of(KafkaRaftLog log) {
        BufferSupplier buffers = BufferSupplier.create();
        List<Consumer<MetadataDelta>> changes = new ArrayList<>();
        long next = 0;
        if (log.latestSnapshot().isPresent()) {
            try (RecordsSnapshotReader<ApiMessageAndVersion> reader = RecordsSnapshotReader.of(
                    log.latestSnapshot().get(), new MetadataRecordSerde(), buffers, 8 << 20, true, new LogContext())) {
                if (reader.lastContainedLogOffset() >= 0) {
                    reader.lastContainedLogTimestamp();  // the snapshot of the format is closed unread
                }
                while (reader.hasNext()) {
                    reader.next().records().forEach(each -> changes.add(delta -> delta.replay(each.message())));
                }
                changes.add(MetadataDelta::finishSnapshot);
                next = reader.lastContainedLogOffset() + 1;
            }
        }
        while (log.endOffset().offset() > next) {
            long before = next;
            try (RecordsIterator<ApiMessageAndVersion> batches = new RecordsIterator<>(
                    log.read(next, Isolation.UNCOMMITTED, Integer.MAX_VALUE).records, new MetadataRecordSerde(), buffers,
                    8 << 20, true, new LogContext())) {
                while (batches.hasNext()) {
                    Batch<ApiMessageAndVersion> batch = batches.next();
                    batch.records().forEach(each -> changes.add(delta -> delta.replay(each.message())));
                    next = batch.lastOffset() + 1;
                }
            }
            if (next <= before) {
                throw new IllegalStateException("it reads from offset " + next + " for ever");
            }
        }
        return changes;
    }
}

/** The broker's process ends. */
class Halted extends RuntimeException {
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
