// Flink's Kafka source reads topics to their ends, as a batch job in this process, and prints a line for each record.

import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

import java.util.HexFormat;

public class FlinkRead {
    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironment(1);
        job.setRuntimeMode(RuntimeExecutionMode.BATCH);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(args[0])
            .setTopics(args[1].split(","))
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setProperty("isolation.level", args[2])
            .setDeserializer(new Lines())
            .build();
        try (CloseableIterator<String> lines =
                 job.fromSource(source, WatermarkStrategy.noWatermarks(), "serve").executeAndCollect()) {
            lines.forEachRemaining(System.out::println);
        }
    }

    /** A line: partition, offset, timestamp, key, value. */
    public static class Lines implements KafkaRecordDeserializationSchema<String> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<String> out) {
            out.collect(record.topic() + "-" + record.partition() + "\t" + record.offset() + "\t" + record.timestamp()
                + "\t" + hex(record.key()) + "\t" + hex(record.value()));
        }

        @Override
        public TypeInformation<String> getProducedType() {
            return TypeInformation.of(String.class);
        }

        private static String hex(byte[] data) {
            return data == null ? "-" : HexFormat.of().formatHex(data);
        }
    }
}
