// Kafka's own log classes as a judge: one JSON object a line on standard input, one JSON line back for each.
// What fails answers {"error": class, "message": text}. Commands, by the field "command":
//   load       opens a partition's folder, tells its state, reads from it if "reads" asks so, closes it
//   write      runs "steps" on a new or existing log with a clock that stands still, tells what each gave
//   validate   runs LogValidator
//   checkpoint writes an offset checkpoint file
// Folders are changed in place. tests/kafka/judge.py is the other side and documents the fields.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.zip.CRC32;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;  // where most are from 4.4 on
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class Judge {
    static final ObjectMapper JSON = new ObjectMapper();
    static final int FETCH = 1 << 20;

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                answer = run(JSON.readTree(line));
            } catch (Throwable error) {
                answer = failure(error);
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    /** As LogManager closes a log at a clean stop: from 4.4 on close() alone leaves the active indexes as they are. */
    static void closeCleanly(UnifiedLog log) throws Exception {
        for (java.lang.reflect.Method each : UnifiedLog.class.getMethods())
            if (each.getName().equals("prepareActiveSegmentForClose"))
                each.invoke(log);
        log.close();
    }

    static Object run(JsonNode command) throws Exception {
        return switch (command.get("command").asText()) {
            case "load" -> load(command);
            case "write" -> write(command);
            case "validate" -> validate(command);
            case "checkpoint" -> checkpoint(command);
            default -> throw new IllegalArgumentException(command.toString());
        };
    }

    static Map<String, Object> failure(Throwable error) {
        return Map.of("error", error.getClass().getSimpleName(), "message", String.valueOf(error.getMessage()));
    }

    // A log, its clock and its background tasks

    static class Session {
        final File folder;
        final Clock clock;
        Tasks tasks;
        UnifiedLog log;
        Map<String, String> config = new HashMap<>();

        Session(JsonNode command) throws Exception {
            folder = new File(command.get("folder").asText());
            clock = new Clock(command.path("now_ms").asLong(1_700_000_000_000L));
            command.path("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
            open(command);
        }

        /** "log_start" and "recovery_point" are, where left out, what the log before had at its end. */
        void open(JsonNode command) throws Exception {
            long logStart = log == null ? 0 : log.logStartOffset();
            long recoveryPoint = log == null ? 0 : log.recoveryPoint();
            tasks = new Tasks(clock);
            clock.tasks = tasks;
            JsonNode topicId = command.path("topic_id");
            log = UnifiedLog.create(
                folder, new LogConfig(config), command.path("log_start").asLong(logStart),
                command.path("recovery_point").asLong(recoveryPoint),
                tasks, new BrokerTopicStats(false), clock, 300_000, new ProducerStateManagerConfig(86_400_000, false),
                600_000, new LogDirFailureChannel(1), command.path("clean").asBoolean(true),
                topicId.isTextual() ? Optional.of(Uuid.fromString(topicId.asText())) : Optional.empty());
        }

        Map<String, Object> state() throws Exception {
            Map<String, Object> state = new LinkedHashMap<>();
            state.put("log_start_offset", log.logStartOffset());
            state.put("log_end_offset", log.logEndOffset());
            state.put("recovery_point", log.recoveryPoint());
            state.put("high_watermark", log.highWatermark());
            state.put("last_stable_offset", log.lastStableOffset());
            state.put("first_unstable_offset", log.firstUnstableOffset().orElse(null));
            state.put("segments", log.logSegments().stream().map(segment -> segment.baseOffset()).toList());
            state.put("epochs", log.leaderEpochCache().epochEntries().stream()
                .map(entry -> List.of((long) entry.epoch(), entry.startOffset())).toList());
            Map<Long, Object> producers = new TreeMap<>();
            log.producerStateManager().activeProducers().forEach((id, entry) -> producers.put(id, List.of(
                id, entry.producerEpoch(), entry.coordinatorEpoch(), entry.lastTimestamp(),
                entry.currentTxnFirstOffset().orElse(-1),
                entry.batchMetadata().stream()
                    .map(batch -> List.of(batch.lastSeq(), batch.lastOffset(), batch.offsetDelta(), batch.timestamp())).toList())));
            state.put("producers", producers.values());
            state.put("aborted", log.collectAbortedTransactions(log.logStartOffset(), log.logEndOffset()).stream()
                .map(txn -> List.of(txn.producerId(), txn.firstOffset(), txn.lastOffset(), txn.lastStableOffset())).toList());
            return state;
        }

        Map<String, Object> files() throws Exception {
            Map<String, Object> files = new TreeMap<>();
            for (File file : folder.listFiles(File::isFile)) {
                byte[] data = Files.readAllBytes(file.toPath());
                byte[] digest = MessageDigest.getInstance("SHA-256").digest(data);
                files.put(file.getName(), List.of(data.length, HexFormat.of().formatHex(digest)));
            }
            return files;
        }
    }

    // load

    static Object load(JsonNode command) throws Exception {
        Session session = new Session(command);
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("state", session.state());
            List<Object> reads = new ArrayList<>();
            if (!command.path("reads").isEmpty()) {
                session.log.updateHighWatermark(session.log.logEndOffset());
                for (JsonNode read : command.get("reads")) {
                    reads.add(read(session.log, read.get(0).asLong(), FetchIsolation.valueOf(read.get(1).asText())));
                }
            }
            answer.put("reads", reads);
        } finally {
            closeCleanly(session.log);
        }
        answer.put("files", session.files());
        return answer;
    }

    /** What a consumer gets from an offset on: offset, timestamp, CRC-32 of key and of value (null for null). */
    static List<Object> read(UnifiedLog log, long from, FetchIsolation isolation) throws Exception {
        List<Object> records = new ArrayList<>();
        long next = from;
        while (next < log.logEndOffset()) {
            FetchDataInfo fetched = log.read(next, FETCH, isolation, true);
            PriorityQueue<AbortedTransaction> aborted =
                new PriorityQueue<>(Comparator.comparingLong(AbortedTransaction::firstOffset));
            fetched.abortedTransactions.ifPresent(aborted::addAll);
            Set<Long> open = new HashSet<>();
            long before = next;
            for (RecordBatch batch : fetched.records.batches()) {
                while (!aborted.isEmpty() && aborted.peek().firstOffset() <= batch.lastOffset()) {
                    open.add(aborted.poll().producerId());
                }
                if (batch.isControlBatch()) {
                    for (Record marker : batch) { // none in a batch that a cleaner has emptied
                        if (ControlRecordType.parse(marker.key()) == ControlRecordType.ABORT) {
                            open.remove(batch.producerId());
                        }
                    }
                } else if (!batch.isTransactional() || !open.contains(batch.producerId())) {
                    for (Record record : batch) {
                        if (record.offset() >= from) {
                            records.add(facts(record));
                        }
                    }
                }
                next = batch.nextOffset();
            }
            if (next == before) {
                break;
            }
        }
        return records;
    }

    static List<Object> facts(Record record) {
        List<Object> facts = new ArrayList<>();
        facts.add(record.offset());
        facts.add(record.timestamp());
        facts.add(crc(record.key()));
        facts.add(crc(record.value()));
        return facts;
    }

    static Long crc(ByteBuffer data) {
        if (data == null) {
            return null;
        }
        CRC32 crc = new CRC32();
        crc.update(data);
        return crc.getValue();
    }

    // write

    static Object write(JsonNode command) throws Exception {
        Session session = new Session(command);
        List<Object> answers = new ArrayList<>();
        for (JsonNode step : command.get("steps")) {
            try {
                answers.add(step(session, step));
            } catch (Exception error) {
                answers.add(failure(error));
            }
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("steps", answers);
        answer.put("state", session.state());
        closeCleanly(session.log);
        answer.put("files", session.files());
        return answer;
    }

    static Object step(Session session, JsonNode step) throws Exception {
        UnifiedLog log = session.log;
        long offset = step.path("offset").asLong(-1);
        switch (step.get("call").asText()) {
            case "append_as_leader" -> {
                AppendOrigin origin = AppendOrigin.valueOf(step.path("origin").asText("CLIENT"));
                short version = (short) step.path("transaction_version").asInt(0);
                return info(log.appendAsLeader(
                    records(step), step.path("epoch").asInt(0), origin, RequestLocal.noCaching(), VerificationGuard.SENTINEL, version));
            }
            case "append_as_follower" -> {
                return info(log.appendAsFollower(records(step), step.path("epoch").asInt(0)));
            }
            case "sleep" -> session.clock.sleep(step.get("ms").asLong());
            case "roll" -> log.roll();
            case "flush" -> log.flush(true);
            case "high_watermark" -> {
                return log.updateHighWatermark(offset);
            }
            case "delete_records" -> {
                return log.maybeIncrementLogStartOffset(offset, LogStartOffsetIncrementReason.ClientRecordDeletion);
            }
            case "delete_old_segments" -> {
                return log.deleteOldSegments();
            }
            case "truncate_to" -> {
                return log.truncateTo(offset);
            }
            case "truncate_fully" -> log.truncateFullyAndStartAt(
                offset, step.hasNonNull("log_start") ? Optional.of(step.get("log_start").asLong()) : Optional.empty());
            case "assign_epoch" -> log.assignEpochStartOffset(step.get("epoch").asInt(), offset);
            case "take_snapshot" -> log.takeProducerSnapshot();
            case "clean" -> {
                return clean(session, step);
            }
            case "reopen" -> {
                if (step.path("clean").asBoolean(true)) {
                    closeCleanly(log);
                }
                session.open(step);
            }
            default -> throw new IllegalArgumentException(step.toString());
        }
        return null;
    }

    static MemoryRecords records(JsonNode step) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(step.get("data").asText())));
    }

    static Object info(LogAppendInfo info) {
        return List.of(info.firstOffset(), info.lastOffset(), info.maxTimestamp(), info.logAppendTime());
    }

    /** Cleans from "offset" on what is stable and not in the active segment; gives the offset that is cleaned up to. */
    static Object clean(Session session, JsonNode step) throws Exception {
        UnifiedLog log = session.log;
        Throttler throttler = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "judge", "bytes", session.clock);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(step.path("map_bytes").asInt(1 << 20)), step.path("buffer").asInt(1 << 16),
            step.path("max_buffer").asInt(1 << 20), 0.75, throttler, session.clock, partition -> { });
        long end = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
        LogToClean dirty = new LogToClean(log, step.path("offset").asLong(0), end, false);
        return cleaner.clean(dirty).getKey();
    }

    // validate

    static Object validate(JsonNode asked) {
        Map<String, Object> answer = new LinkedHashMap<>();
        Refusals refusals = new Refusals();
        PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(asked.get("offset").asLong());
        LogValidator validator = new LogValidator(
            records(asked), new TopicPartition("topic", 0), new Clock(asked.get("now_ms").asLong()),
            CompressionType.forName(asked.get("source").asText()), Compression.of(asked.get("target").asText()).build(),
            asked.get("compact").asBoolean(), (byte) asked.get("to_magic").asInt(),
            TimestampType.forName(asked.get("timestamp_type").asText()), asked.get("before_ms").asLong(), asked.get("after_ms").asLong(),
            asked.get("epoch").asInt(), AppendOrigin.valueOf(asked.get("origin").asText()));
        try {
            LogValidator.ValidationResult result =
                validator.validateMessagesAndAssignOffsets(offset, refusals, BufferSupplier.NO_CACHING);
            ByteBuffer made = result.validatedRecords().buffer().duplicate();
            byte[] data = new byte[made.remaining()];
            made.get(data);
            answer.put("data", Base64.getEncoder().encodeToString(data));
            answer.put("next_offset", offset.value);
            answer.put("max_timestamp", result.maxTimestampMs());
            answer.put("changed", result.messageSizeMaybeChanged());
            answer.put("converted", result.recordValidationStats().numRecordsConverted());
            answer.put("memory", result.recordValidationStats().temporaryMemoryBytes());
        } catch (RecordValidationException error) {
            answer.put("refused", error.invalidException().getClass().getSimpleName());
            answer.put("places", error.recordErrors().stream().map(each -> each.batchIndex).toList());
        } catch (RuntimeException | Error error) {
            answer.put("refused", error.getClass().getSimpleName());
            answer.put("message", String.valueOf(error.getMessage()));
        }
        answer.put("metrics", refusals.counts);
        return answer;
    }

    static class Refusals implements LogValidator.MetricsRecorder {
        final int[] counts = new int[5];

        public void recordInvalidMagic() {
            counts[0]++;
        }

        public void recordInvalidOffset() {
            counts[1]++;
        }

        public void recordInvalidSequence() {
            counts[2]++;
        }

        public void recordInvalidChecksums() {
            counts[3]++;
        }

        public void recordNoKeyCompactedTopic() {
            counts[4]++;
        }
    }

    // checkpoint

    static Object checkpoint(JsonNode command) throws Exception {
        Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
        for (JsonNode entry : command.get("entries")) {
            offsets.put(new TopicPartition(entry.get(0).asText(), entry.get(1).asInt()), entry.get(2).asLong());
        }
        Path file = Path.of(command.get("file").asText());
        new OffsetCheckpointFile(file.toFile(), new LogDirFailureChannel(1)).write(offsets);
        return Map.of("text", Files.readString(file));
    }
}

/** A clock that stands still until it is told; what is due then runs at once, in the same thread. */
class Clock implements Time {
    long now;
    Tasks tasks;

    Clock(long now) {
        this.now = now;
    }

    public long milliseconds() {
        return now;
    }

    public long nanoseconds() {
        return TimeUnit.MILLISECONDS.toNanos(now);
    }

    public void sleep(long ms) {
        now += ms;
        tasks.tick();
    }

    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException();
    }
}

class Tasks implements Scheduler {
    final Clock clock;
    final PriorityQueue<Task> due = new PriorityQueue<>();
    long serial;

    Tasks(Clock clock) {
        this.clock = clock;
    }

    public void startup() {
    }

    public void shutdown() {
    }

    public void resizeThreadPool(int newSize) {
    }

    public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
        Task scheduled = new Task(task, clock.now + delayMs, periodMs, serial++);
        due.add(scheduled);
        tick();
        return scheduled;
    }

    void tick() {
        while (!due.isEmpty() && due.peek().when <= clock.now) {
            Task task = due.poll();
            if (task.cancelled) {
                continue;
            }
            task.run.run();
            if (task.period >= 0) {
                task.when += task.period;
                due.add(task);
            }
        }
    }

    class Task implements ScheduledFuture<Object> {
        final Runnable run;
        long when;
        final long period;
        final long serial;
        boolean cancelled;

        Task(Runnable run, long when, long period, long serial) {
            this.run = run;
            this.when = when;
            this.period = period;
            this.serial = serial;
        }

        public long getDelay(TimeUnit unit) {
            return unit.convert(when - clock.now, TimeUnit.MILLISECONDS);
        }

        public int compareTo(Delayed other) {
            Task task = (Task) other;
            return when != task.when ? Long.compare(when, task.when) : Long.compare(serial, task.serial);
        }

        public boolean cancel(boolean mayInterrupt) {
            cancelled = true;
            return true;
        }

        public boolean isCancelled() {
            return cancelled;
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
}
