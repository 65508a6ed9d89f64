// Kafka's own readers in one warm JVM, driven line by line on standard input; each answer is one line:
// "wall-nanoseconds count sum". Commands:
//   iterate FILE        every record's key, value and timestamp
//   iterate-mmap FILE   the same over a map of the file, which Kafka never makes but which spares FileRecords' reads
//   crc FILE            every batch's checksum
//   lines FILE OUT TOPIC PARTITION   every record as our JSON line
//   segments FOLDER     opens the segments of a partition (answer: how many)
//   lookups FILE        for each offset in FILE (text, one a line): LogSegment.read, then on to that record

import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogSegments;

public class KafkaPeer {
    static final BufferSupplier BUFFERS = BufferSupplier.create();
    static LogSegments segments;
    static long count;
    static long sum;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            count = sum = 0;
            long wall = System.nanoTime();
            switch (words[0]) {
                case "iterate" -> iterate(words[1]);
                case "iterate-mmap" -> iterateMapped(words[1]);
                case "crc" -> crc(words[1]);
                case "lines" -> lines(words[1], words[2], words[3], Integer.parseInt(words[4]));
                case "segments" -> openSegments(new File(words[1]));
                case "lookups" -> {
                    long[] offsets = Files.readAllLines(Path.of(words[1])).stream().mapToLong(Long::parseLong).toArray();
                    wall = System.nanoTime();
                    lookups(offsets);
                }
                default -> throw new IllegalArgumentException(line);
            }
            wall = System.nanoTime() - wall;
            System.out.println(wall + " " + count + " " + sum);
        }
    }

    static void iterate(String file) throws Exception {
        try (FileRecords records = FileRecords.open(new File(file), false)) {
            touchAll(records.batches());
        }
    }

    static void iterateMapped(String file) throws Exception {
        try (FileChannel channel = FileChannel.open(Path.of(file))) {
            ByteBuffer map = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            touchAll(MemoryRecords.readableRecords(map).batches());
        }
    }

    static void touchAll(Iterable<? extends RecordBatch> batches) {
        for (RecordBatch batch : batches) {
            try (CloseableIterator<Record> all = batch.streamingIterator(BUFFERS)) {
                while (all.hasNext()) {
                    touch(all.next());
                }
            }
        }
    }

    static void touch(Record record) {
        count++;
        ByteBuffer key = record.key();
        ByteBuffer value = record.value();
        sum += record.timestamp() + record.offset();
        if (key != null) sum += key.remaining() + key.get(key.position());
        if (value != null) sum += value.remaining() + value.get(value.position());
    }

    static void crc(String file) throws Exception {
        try (FileRecords records = FileRecords.open(new File(file), false)) {
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                count++;
            }
        }
    }

    static void lines(String file, String out, String topic, int partition) throws Exception {
        try (FileRecords records = FileRecords.open(new File(file), false);
             OutputStream output = new FileOutputStream(out)) {
            LineWriter writer = new LineWriter(output, topic, partition);
            for (RecordBatch batch : records.batches()) {
                try (CloseableIterator<Record> all = batch.streamingIterator(BUFFERS)) {
                    while (all.hasNext()) {
                        writer.write(batch, all.next());
                        count++;
                    }
                }
            }
            writer.flush();
            sum = writer.written;
        }
    }

    static void openSegments(File folder) throws Exception {
        if (segments != null) segments.close();
        segments = new LogSegments(new TopicPartition("lookup", 0));
        LogConfig config = new LogConfig(Map.of());
        String[] names = folder.list((where, name) -> name.endsWith(".log"));
        Arrays.sort(names);
        for (String name : names) {
            long base = Long.parseLong(name.substring(0, name.length() - 4));
            segments.add(LogSegment.open(folder, base, config, Time.SYSTEM, true, 0, false, ""));
            count++;
        }
    }

    static void lookups(long[] offsets) throws Exception {
        for (long offset : offsets) {
            LogSegment segment = segments.floorSegment(offset).orElseThrow();
            FetchDataInfo found = segment.read(offset, 1, Optional.of((long) segment.size()), true);
            search:
            for (RecordBatch batch : found.records.batches()) {
                try (CloseableIterator<Record> all = batch.streamingIterator(BUFFERS)) {
                    while (all.hasNext()) {
                        Record record = all.next();
                        if (record.offset() >= offset) {
                            touch(record);
                            break search;
                        }
                    }
                }
            }
        }
    }

    /** Our record line, written into one array by hand: the JSON library of the JVM would be slower. */
    static final class LineWriter {
        static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
        final OutputStream output;
        final byte[] prefix;
        byte[] buffer = new byte[1 << 20];
        byte[] input = new byte[1 << 12];
        int at = 0;
        long written = 0;

        LineWriter(OutputStream output, String topic, int partition) {
            this.output = output;
            this.prefix = ("{\"topic\":\"" + topic + "\",\"partition\":" + partition + ",\"offset\":")
                .getBytes(StandardCharsets.UTF_8);
        }

        void flush() throws Exception {
            output.write(buffer, 0, at);
            written += at;
            at = 0;
        }

        void write(RecordBatch batch, Record record) throws Exception {
            int most = 512 + 6 * record.sizeInBytes() + 128 * record.headers().length;
            if (at + most > buffer.length) {
                flush();
                if (most > buffer.length) buffer = new byte[most];
            }
            put(prefix);
            number(record.offset());
            put(TIMESTAMP);
            number(record.timestamp());
            put(TIME);
            time(record.timestamp());
            put(batch.timestampType() == TimestampType.LOG_APPEND_TIME ? APPENDED : CREATED);
            put(KEY);
            field(record.key(), KEY_JSON, KEY_BASE64);
            put(VALUE);
            field(record.value(), VALUE_JSON, VALUE_BASE64);
            put(HEADERS);
            boolean first = true;
            for (Header header : record.headers()) {
                if (!first) buffer[at++] = ',';
                first = false;
                put(HEADER_KEY);
                field(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8)), KEY_JSON, KEY_BASE64);
                put(VALUE);
                field(header.value() == null ? null : ByteBuffer.wrap(header.value()), VALUE_JSON, VALUE_BASE64);
                buffer[at++] = '}';
            }
            put(EPOCH);
            number(batch.partitionLeaderEpoch());
            if (record.sequence() >= 0) {
                put(SEQUENCE);
                number(record.sequence());
            }
            buffer[at++] = '}';
            buffer[at++] = '\n';
        }

        static final byte[] TIMESTAMP = ascii(",\"timestamp\":"), TIME = ascii(",\"time\":"),
            CREATED = ascii(",\"timestampType\":\"CreateTime\""), APPENDED = ascii(",\"timestampType\":\"LogAppendTime\""),
            KEY = ascii(",\"key\":"), KEY_JSON = ascii(",\"keyEncoding\":\"json\""),
            KEY_BASE64 = ascii(",\"keyEncoding\":\"base64\""), VALUE = ascii(",\"value\":"),
            VALUE_JSON = ascii(",\"valueEncoding\":\"json\""), VALUE_BASE64 = ascii(",\"valueEncoding\":\"base64\""),
            HEADERS = ascii(",\"headers\":["), HEADER_KEY = ascii("{\"key\":"), EPOCH = ascii("],\"leaderEpoch\":"),
            SEQUENCE = ascii(",\"sequence\":"), NULL = ascii("null"), ESCAPE = ascii("\\u00");

        static byte[] ascii(String text) {
            return text.getBytes(StandardCharsets.US_ASCII);
        }

        void put(byte[] bytes) {
            System.arraycopy(bytes, 0, buffer, at, bytes.length);
            at += bytes.length;
        }

        void number(long value) {
            if (value < 0) {
                if (value == Long.MIN_VALUE) {
                    put(ascii("-9223372036854775808"));
                    return;
                }
                buffer[at++] = '-';
                value = -value;
            }
            int digits = 1;
            for (long rest = value; rest >= 10; rest /= 10) digits++;
            for (int i = at + digits - 1; i >= at; i--, value /= 10) buffer[i] = (byte) ('0' + value % 10);
            at += digits;
        }

        void fixed(int value, int digits) {
            for (int i = at + digits - 1; i >= at; i--, value /= 10) buffer[i] = (byte) ('0' + value % 10);
            at += digits;
        }

        /** Days to year, month and day by arithmetic; java.time would cost several times as much. */
        void time(long ms) {
            if (ms < 0 || ms >= 253402300800000L) {
                put(NULL);
                return;
            }
            long shifted = ms / 86_400_000 + 719_468;
            int inDay = (int) (ms % 86_400_000);
            long era = shifted / 146_097;
            int ofEra = (int) (shifted - era * 146_097);
            int yearOfEra = (ofEra - ofEra / 1460 + ofEra / 36_524 - ofEra / 146_096) / 365;
            int ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100);
            int part = (5 * ofYear + 2) / 153;
            int month = part < 10 ? part + 3 : part - 9;
            buffer[at++] = '"';
            fixed((int) (yearOfEra + era * 400 + (month <= 2 ? 1 : 0)), 4);
            buffer[at++] = '-';
            fixed(month, 2);
            buffer[at++] = '-';
            fixed(ofYear - (153 * part + 2) / 5 + 1, 2);
            buffer[at++] = 'T';
            fixed(inDay / 3_600_000, 2);
            buffer[at++] = ':';
            fixed(inDay / 60_000 % 60, 2);
            buffer[at++] = ':';
            fixed(inDay / 1000 % 60, 2);
            buffer[at++] = '.';
            fixed(inDay % 1000, 3);
            buffer[at++] = 'Z';
            buffer[at++] = '"';
        }

        void field(ByteBuffer bytes, byte[] json, byte[] base64) {
            if (bytes == null) {
                put(NULL);
                return;
            }
            int size = bytes.remaining();
            if (size > input.length) input = new byte[size * 2];
            bytes.get(bytes.position(), input, 0, size);
            if (size > 1 && (input[0] == '{' || input[0] == '[') && new Json(input, size).isContainer()) {
                copyJson(size);
                put(json);
            } else if (isUtf8(size)) {
                buffer[at++] = '"';
                for (int i = 0; i < size; i++) character(input[i]);
                buffer[at++] = '"';
            } else {
                buffer[at++] = '"';
                put(java.util.Base64.getEncoder().encode(Arrays.copyOf(input, size)));
                buffer[at++] = '"';
                put(base64);
            }
        }

        void character(byte c) {
            if (c == '"' || c == '\\') {
                buffer[at++] = '\\';
                buffer[at++] = c;
            } else if (c >= 0 && c < 32 || c == 127) {
                control(c);
            } else {
                buffer[at++] = c;
            }
        }

        void control(byte c) {
            int named = "\b\f\n\r\t".indexOf(c);
            if (named >= 0) {
                buffer[at++] = '\\';
                buffer[at++] = (byte) "bfnrt".charAt(named);
            } else {
                put(ESCAPE);
                buffer[at++] = HEX[c >> 4];
                buffer[at++] = HEX[c & 15];
            }
        }

        void copyJson(int size) {
            boolean inString = false;
            for (int i = 0; i < size; i++) {
                byte c = input[i];
                if (inString) {
                    buffer[at++] = c;
                    if (c == '\\') buffer[at++] = input[++i];
                    else if (c == '"') inString = false;
                } else if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
                    buffer[at++] = c;
                    inString = c == '"';
                }
            }
        }

        boolean isUtf8(int size) {
            for (int i = 0; i < size; i++) {
                if (input[i] < 0) {
                    try {
                        StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(input, 0, size));
                        return true;
                    } catch (CharacterCodingException e) {
                        return false;
                    }
                }
            }
            return true;
        }
    }

    /** Whether bytes are one JSON object or array; enough for ASCII documents. */
    static final class Json {
        final byte[] text;
        final int end;
        int at = 0;

        Json(byte[] text, int end) {
            this.text = text;
            this.end = end;
        }

        boolean isContainer() {
            return value(0) && blank() == end;
        }

        int blank() {
            while (at < end && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) at++;
            return at;
        }

        boolean value(int depth) {
            if (blank() == end || depth > 128) return false;
            return switch (text[at]) {
                case '{' -> members('}', depth);
                case '[' -> members(']', depth);
                case '"' -> string();
                case 't' -> word("true");
                case 'f' -> word("false");
                case 'n' -> word("null");
                default -> number();
            };
        }

        boolean members(char close, int depth) {
            at++;
            if (blank() < end && text[at] == close) {
                at++;
                return true;
            }
            while (true) {
                if (close == '}' && !(blank() < end && text[at] == '"' && string() && blank() < end && text[at++] == ':')) return false;
                if (!value(depth + 1) || blank() == end) return false;
                byte c = text[at++];
                if (c == close) return true;
                if (c != ',') return false;
            }
        }

        boolean string() {
            for (at++; at < end; at++) {
                byte c = text[at];
                if (c == '"') {
                    at++;
                    return true;
                }
                if (c >= 0 && c < 32 || c == '\\' && (++at == end || "\"\\/bfnrtu".indexOf(text[at]) < 0)) return false;
            }
            return false;
        }

        boolean word(String word) {
            for (int i = 0; i < word.length(); i++, at++) if (at == end || text[at] != word.charAt(i)) return false;
            return true;
        }

        boolean number() {
            if (at < end && text[at] == '-') at++;
            int start = at;
            while (at < end && text[at] >= '0' && text[at] <= '9') at++;
            if (at == start || text[start] == '0' && at > start + 1) return false;
            if (at < end && text[at] == '.') {
                int dot = ++at;
                while (at < end && text[at] >= '0' && text[at] <= '9') at++;
                if (at == dot) return false;
            }
            if (at < end && (text[at] | 32) == 'e') {
                at++;
                if (at < end && (text[at] == '+' || text[at] == '-')) at++;
                int digits = at;
                while (at < end && text[at] >= '0' && text[at] <= '9') at++;
                return at > digits;
            }
            return true;
        }
    }
}
