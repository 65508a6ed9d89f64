// Two consumers of a group share topics with 4 partitions, then the first one leaves, and the second one reads to the
// ends. Arguments: address, group, protocol, topics. Prints who has what at each stage, and each record that was read.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class GroupMembers {
    private static final long PATIENCE_MS = 30_000;
    private static final int PARTITIONS = 4;
    private static final List<KafkaConsumer<byte[], byte[]>> MEMBERS = new ArrayList<>();

    public static void main(String[] args) {
        List<String> topics = List.of(args).subList(3, args.length);
        KafkaConsumer<byte[], byte[]> first = join(args, topics);
        until(() -> first.assignment().size() == PARTITIONS);
        show("alone", first);
        KafkaConsumer<byte[], byte[]> second = join(args, topics);
        until(() -> !second.assignment().isEmpty()
            && first.assignment().size() + second.assignment().size() == PARTITIONS);
        show("first", first);
        show("second", second);
        MEMBERS.remove(first);
        first.close();
        until(() -> second.assignment().size() == PARTITIONS && isAtEnds(second));
        show("heir", second);
        second.close();
    }

    private static KafkaConsumer<byte[], byte[]> join(String[] args, List<String> topics) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", args[0],
            "group.id", args[1],
            "group.protocol", args[2],
            "auto.offset.reset", "earliest",
            "max.poll.records", 10,
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class));
        if (args[2].equals("classic")) {
            settings.put("heartbeat.interval.ms", 300);
            // Cooperative members go on reading while they rebalance, and read some records twice, at a broker too.
            settings.put("partition.assignment.strategy",
                "org.apache.kafka.clients.consumer.RoundRobinAssignor");
        }
        KafkaConsumer<byte[], byte[]> member = new KafkaConsumer<>(settings);
        member.subscribe(topics);
        MEMBERS.add(member);
        return member;
    }

    private static void until(BooleanSupplier condition) {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("it did not come so far");
            }
            for (KafkaConsumer<byte[], byte[]> member : MEMBERS) {
                for (ConsumerRecord<byte[], byte[]> record : member.poll(Duration.ofMillis(50))) {
                    System.out.printf("record %s %d%n", record.topic(), record.offset());
                }
            }
        }
    }

    private static boolean isAtEnds(KafkaConsumer<byte[], byte[]> member) {
        Set<TopicPartition> places = member.assignment();
        Map<TopicPartition, Long> ends = member.endOffsets(places);
        return places.stream().allMatch(place -> member.position(place) == ends.get(place));
    }

    private static void show(String who, KafkaConsumer<byte[], byte[]> member) {
        for (TopicPartition place : member.assignment()) {
            System.out.printf("%s %s %d%n", who, place.topic(), place.partition());
        }
    }
}
