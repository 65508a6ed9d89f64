// Kafka's own writers in one warm JVM, driven line by line on standard input; each answer is one line:
// "wall-nanoseconds count sum". FILE is a segment's records file, FOLDER a new folder of a partition. Commands:
//   segment FILE FOLDER BYTES    LogSegment.append of the file's batches, up to that many bytes a call
//   follower FILE FOLDER BYTES   UnifiedLog.appendAsFollower of them
//   leader FILE FOLDER BYTES     UnifiedLog.appendAsLeader of them, each with offsets from 0 on as a producer sends it
//   recover FOLDER               LogSegment.recover of the segment 0 that is there
//   compact FOLDER SEGMENT MAP BUFFER   Cleaner.clean of all but the active segment, with SEGMENT bytes a segment, MAP
//                                bytes of offset map and BUFFER bytes of I/O buffer; the count is of records kept
// Opening and closing is not part of the time. The count is of calls, the sum of bytes.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class WriterPeer {
    static final LogConfig CONFIG = new LogConfig(Map.of());
    static final ProducerStateManagerConfig PRODUCERS = new ProducerStateManagerConfig(86_400_000, false);
    static final KafkaScheduler SCHEDULER = new KafkaScheduler(1);
    static String loaded = "";
    static byte[] bytes;
    static long count;
    static long sum;

    public static void main(String[] args) throws Exception {
        SCHEDULER.startup();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            count = sum = 0;
            long wall = switch (words[0]) {
                case "segment" -> segment(words[1], new File(words[2]), Integer.parseInt(words[3]));
                case "follower" -> log(words[1], new File(words[2]), Integer.parseInt(words[3]), false);
                case "leader" -> log(words[1], new File(words[2]), Integer.parseInt(words[3]), true);
                case "recover" -> recover(new File(words[1]));
                case "compact" -> compact(new File(words[1]), words[2], Integer.parseInt(words[3]),
                    Integer.parseInt(words[4]));
                default -> throw new IllegalArgumentException(line);
            };
            System.out.println(wall + " " + count + " " + sum);
        }
        SCHEDULER.shutdown();
    }

    /** The file's batches, as they come from the network: up to so many bytes of whole batches at a time. */
    static List<ByteBuffer> requests(String file, int most, boolean produced) throws Exception {
        if (!file.equals(loaded)) {
            bytes = Files.readAllBytes(new File(file).toPath());
            loaded = file;
        }
        ByteBuffer all = ByteBuffer.wrap(produced ? bytes.clone() : bytes);
        List<ByteBuffer> requests = new ArrayList<>();
        int start = 0;
        int at = 0;
        while (at < bytes.length) {
            int next = at + 12 + all.getInt(at + 8);
            if (at > start && next - start > most) {
                requests.add(all.slice(start, at - start));
                start = at;
            }
            if (produced) all.putLong(at, 0);
            at = next;
        }
        requests.add(all.slice(start, at - start));
        return requests;
    }

    static long segment(String file, File folder, int most) throws Exception {
        List<ByteBuffer> requests = requests(file, most, false);
        folder.mkdirs();
        LogSegment segment = LogSegment.open(folder, 0, CONFIG, Time.SYSTEM, 0, false);
        long wall = System.nanoTime();
        for (ByteBuffer request : requests) {
            MemoryRecords records = MemoryRecords.readableRecords(request.duplicate());
            long last = 0;
            for (RecordBatch batch : records.batches()) last = batch.lastOffset();
            segment.append(last, records);
            count++;
            sum += request.remaining();
        }
        wall = System.nanoTime() - wall;
        segment.deleteIfExists();
        return wall;
    }

    static long log(String file, File folder, int most, boolean leads) throws Exception {
        List<ByteBuffer> requests = requests(file, most, leads);
        UnifiedLog log = UnifiedLog.create(folder, CONFIG, 0, 0, SCHEDULER, new BrokerTopicStats(false), Time.SYSTEM,
            300_000, PRODUCERS, 600_000, new LogDirFailureChannel(1), true, Optional.empty());
        long wall = System.nanoTime();
        for (ByteBuffer request : requests) {
            MemoryRecords records = MemoryRecords.readableRecords(request.duplicate());
            if (leads) log.appendAsLeader(records, 0);
            else log.appendAsFollower(records, 0);
            count++;
            sum += request.remaining();
        }
        wall = System.nanoTime() - wall;
        log.delete();
        return wall;
    }

    static long recover(File folder) throws Exception {
        TopicPartition partition = new TopicPartition("recover", 0);
        LogSegment segment = LogSegment.open(folder, 0, CONFIG, Time.SYSTEM, true, 0, false, "");
        ProducerStateManager producers = new ProducerStateManager(partition, folder, 300_000, PRODUCERS, Time.SYSTEM);
        LeaderEpochFileCache epochs = new LeaderEpochFileCache(
            partition, new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(folder), new LogDirFailureChannel(1)), SCHEDULER);
        long wall = System.nanoTime();
        count = segment.recover(producers, epochs);
        wall = System.nanoTime() - wall;
        sum = segment.size();
        segment.close();
        return wall;
    }

    static long compact(File folder, String segmentBytes, int mapBytes, int buffer) throws Exception {
        LogConfig config = new LogConfig(Map.of("segment.bytes", segmentBytes, "cleanup.policy", "compact"));
        UnifiedLog log = UnifiedLog.create(folder, config, 0, Long.MAX_VALUE, SCHEDULER, new BrokerTopicStats(false),
            Time.SYSTEM, 300_000, PRODUCERS, 600_000, new LogDirFailureChannel(1), true, Optional.empty());
        Throttler throttler = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "bench", "bytes", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(mapBytes), buffer, 1 << 20, 0.9, throttler, Time.SYSTEM,
            partition -> { });
        LogToClean dirty = new LogToClean(log, 0, log.activeSegment().baseOffset(), false);
        long wall = System.nanoTime();
        CleanerStats stats = cleaner.clean(dirty).getValue();
        wall = System.nanoTime() - wall;
        count = stats.messagesWritten();
        sum = stats.bytesWritten();
        log.delete();
        return wall;
    }
}
