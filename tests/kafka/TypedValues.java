// Keys and values as Kafka's clients write them: `bytes` turns lines of stdin into bytes in hex, by the serializers of Kafka,
// of Kafka Streams and of MirrorMaker 2; `streams BOOTSTRAP` counts words of the topic `words` in windows and sessions.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

public class TypedValues {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("streams")) {
            count(args[1]);
            return;
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String line;
        while ((line = lines.readLine()) != null)
            System.out.println(HexFormat.of().formatHex(bytes(line.split(" "))));
    }

    private static byte[] bytes(String[] w) throws Exception {
        switch (w[0]) {
            case "boolean": return new BooleanSerializer().serialize("", Boolean.valueOf(w[1]));
            case "int16": return new ShortSerializer().serialize("", Short.valueOf(w[1]));
            case "int32": return new IntegerSerializer().serialize("", Integer.valueOf(w[1]));
            case "int64": return new LongSerializer().serialize("", Long.valueOf(w[1]));
            case "float": return new FloatSerializer().serialize("", Float.valueOf(w[1]));
            case "double": return new DoubleSerializer().serialize("", Double.valueOf(w[1]));
            case "uuid": return new UUIDSerializer().serialize("", UUID.fromString(w[1]));
            case "string": {
                StringSerializer serializer = new StringSerializer();
                serializer.configure(Map.of("serializer.encoding", w[2]), false);
                return serializer.serialize("", w[1]);
            }
            case "windowed":
                return new TimeWindowedSerializer<>(new LongSerializer()).serialize("",
                    new Windowed<>(Long.valueOf(w[1]), new TimeWindow(Long.parseLong(w[2]), Long.parseLong(w[2]) + 1)));
            case "windowed-store":
                return WindowKeySchema.toStoreKeyBinary(
                    Bytes.wrap(new StringSerializer().serialize("", w[1])), Long.parseLong(w[2]), Integer.parseInt(w[3])).get();
            case "session":
                return new SessionWindowedSerializer<>(new StringSerializer()).serialize("",
                    new Windowed<>(w[1], new SessionWindow(Long.parseLong(w[2]), Long.parseLong(w[3]))));
            case "mirror-checkpoint":
                return record(w[1], new Checkpoint(w[2], new TopicPartition(w[3], Integer.parseInt(w[4])),
                    Long.parseLong(w[5]), Long.parseLong(w[6]), w[7]));
            case "mirror-heartbeat":
                return record(w[1], new Heartbeat(w[2], w[3], Long.parseLong(w[4])));
            default:
                return record(w[1], new OffsetSync(new TopicPartition(w[2], Integer.parseInt(w[3])),
                    Long.parseLong(w[4]), Long.parseLong(w[5])));
        }
    }

    private static byte[] record(String side, Object of) throws Exception {
        Method made = of.getClass().getDeclaredMethod(side.equals("key") ? "recordKey" : "recordValue");
        made.setAccessible(true);
        return (byte[]) made.invoke(of);
    }

    private static void count(String bootstrap) throws Exception {
        Properties settings = new Properties();
        settings.put("application.id", "counting");
        settings.put("bootstrap.servers", bootstrap);
        settings.put("commit.interval.ms", "100");
        settings.put("replication.factor", "1");
        settings.put("state.dir", System.getProperty("java.io.tmpdir") + "/" + ProcessHandle.current().pid());
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, Long> words = builder
            .stream("words", Consumed.with(Serdes.String(), Serdes.Long()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
        Duration minute = Duration.ofMinutes(1);
        words.windowedBy(TimeWindows.ofSizeWithNoGrace(minute))
            .count(Materialized.<String, Long>as(Stores.inMemoryWindowStore("windows", minute, minute, false))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().to("counts", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 60000L), Serdes.Long()));
        words.windowedBy(SessionWindows.ofInactivityGapWithNoGrace(minute))
            .count(Materialized.<String, Long>as(Stores.inMemorySessionStore("sessions", minute))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().to("sessions", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        System.in.read();
        streams.close(Duration.ofSeconds(20));
    }
}
