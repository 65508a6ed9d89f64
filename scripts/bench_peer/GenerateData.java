// Writes one partition folder with Kafka's own classes: java -cp 'jars/*' GenerateData.java FOLDER CODEC
// BATCH_BYTES VALUE_BYTES MEGABYTES TEXT|JSON. BATCH_BYTES is the producer's batch.size (bytes after compression);
// 0: one record a batch. MEGABYTES counts keys and values before compression. The records depend on nothing else.

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.SplittableRandom;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

public class GenerateData {
    static final long START = 1_700_000_000_000L;
    static final int WORDS = 4096;

    final SplittableRandom random = new SplittableRandom(7);
    final byte[][] words = new byte[WORDS][];
    final boolean json;
    final int valueBytes;
    final byte[] value;
    final Compression codec;
    final int batchBytes;
    final ByteBuffer room;
    float ratio = 1.0f;
    long offset = 0;

    GenerateData(String codecName, int batchBytes, int valueBytes, boolean json) {
        this.codec = Compression.of(CompressionType.forName(codecName)).build();
        this.batchBytes = batchBytes;
        this.valueBytes = valueBytes;
        this.json = json;
        this.value = new byte[valueBytes];
        this.room = ByteBuffer.allocate(8 << 20);
        for (int i = 0; i < WORDS; i++) {
            byte[] word = new byte[2 + random.nextInt(9)];
            for (int j = 0; j < word.length; j++) word[j] = (byte) ('a' + random.nextInt(26));
            words[i] = word;
        }
    }

    public static void main(String[] args) throws Exception {
        File folder = new File(args[0]);
        int batchBytes = Integer.parseInt(args[2]);
        int valueBytes = Integer.parseInt(args[3]);
        long left = Long.parseLong(args[4]) << 20;
        if (!folder.mkdirs()) throw new IllegalStateException(folder + " is there already");
        GenerateData data = new GenerateData(args[1], batchBytes, valueBytes, args[5].equals("JSON"));
        LogConfig config = new LogConfig(Map.of("segment.index.bytes", 64 << 20));
        try (LogSegment segment = LogSegment.open(folder, 0, config, Time.SYSTEM, 0, false)) {
            while (left > 0) left -= data.append(segment);
            segment.onBecomeInactiveSegment();
        }
    }

    /** Appends one batch: its bytes of keys and values. */
    long append(LogSegment segment) throws Exception {
        room.clear();
        long written = 0;
        long base = offset;
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(room),
                RecordBatch.CURRENT_MAGIC_VALUE, codec, TimestampType.CREATE_TIME, base, START, -1L, (short) -1, -1,
                false, false, 0, Math.max(batchBytes, 1))) {
            builder.setEstimatedCompressionRatio(ratio);
            do {
                byte[] key = ("key-" + (offset * 2654435761L & 0xffff)).getBytes(StandardCharsets.US_ASCII);
                fill();
                builder.appendWithOffset(offset, START + offset * 10 + random.nextInt(10), key, value);
                written += key.length + valueBytes;
                offset++;
            } while (batchBytes > 0 && builder.hasRoomFor(START, new byte[12], value, new Header[0]));
            MemoryRecords records = builder.build();
            ratio = (float) Math.min(1.0, builder.compressionRatio() * 1.05);
            segment.append(offset - 1, records);
        }
        return written;
    }

    /** Words and now and then a number, as one line of text or as a JSON document. */
    void fill() {
        int at = 0;
        if (json) at = put(at, "{\"id\":" + offset + ",\"total\":" + random.nextInt(100_000) + ".5,\"text\":\"");
        int end = json ? valueBytes - 2 : valueBytes;
        while (at < end) {
            byte[] word = words[random.nextInt(random.nextInt(WORDS) + 1)];
            int size = Math.min(word.length, end - at);
            System.arraycopy(word, 0, value, at, size);
            at += size;
            if (at < end) value[at++] = ' ';
        }
        if (json) put(end, "\"}");
    }

    int put(int at, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(bytes, 0, value, at, bytes.length);
        return at + bytes.length;
    }
}
