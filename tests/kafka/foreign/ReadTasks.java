// Kafka's consumer reads what lines on stdin ask for: topic, partition, "offset" or "time", start, end, records,
// "committed" or "all". readers.py has the words and reads the answers.

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ReadTasks {
    private static final Duration STEP = Duration.ofMillis(200);
    private static final long DEADLINE_MS = 60_000;

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaConsumer<byte[], byte[]> all = consumer(args[0], "read_uncommitted");
             KafkaConsumer<byte[], byte[]> committed = consumer(args[0], "read_committed")) {
            String line;
            while ((line = lines.readLine()) != null) {
                String[] words = line.split("\t");
                read(words[6].equals("committed") ? committed : all, words, out);
                out.print("end\n");
            }
        }
        out.flush();
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String isolation) {
        return new KafkaConsumer<>(
            Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation, "check.crcs", "true",
                   "enable.auto.commit", "false", "auto.offset.reset", "none", "fetch.max.wait.ms", "5"),
            new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer, String[] words, PrintStream out) {
        TopicPartition place = new TopicPartition(words[0], Integer.parseInt(words[1]));
        long start = Long.parseLong(words[3]), end = Long.parseLong(words[4]);
        consumer.assign(List.of(place));
        if (words[2].equals("time")) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(place, start)).get(place);
            if (found == null) return;
            start = found.offset();
        }
        consumer.seek(place, start);
        long until = System.currentTimeMillis() + DEADLINE_MS;
        while (consumer.position(place) < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(STEP)) print(record, out);
            if (System.currentTimeMillis() > until) throw new IllegalStateException("no end of " + String.join(" ", words));
        }
    }

    private static void print(ConsumerRecord<byte[], byte[]> record, PrintStream out) {
        StringJoiner headers = new StringJoiner(",", ".", "");
        for (Header header : record.headers())
            headers.add(hex(header.key().getBytes(StandardCharsets.UTF_8)) + ":" + hex(header.value()));
        out.print(record.offset() + "\t" + record.timestampType().id + "\t" + record.timestamp() + "\t" + hex(record.key())
            + "\t" + hex(record.value()) + "\t" + headers + "\t" + record.leaderEpoch().orElse(-1) + "\n");
    }

    private static String hex(byte[] data) {
        return data == null ? "-" : HexFormat.of().formatHex(data);
    }
}
