// Members of share groups that take and give back records of topic "orders". Each line from stdin is a step; the
// answer is "done". At the end of stdin they leave.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ShareMembers {
    private static final long PATIENCE_MS = 30_000;
    private static final Map<String, KafkaShareConsumer<byte[], byte[]>> MEMBERS = new HashMap<>();
    private static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            String line;
            while ((line = lines.readLine()) != null) {
                step(admin, line.split(" "));
                System.out.println("done");
            }
            for (KafkaShareConsumer<byte[], byte[]> member : MEMBERS.values()) {
                member.close();
            }
        }
    }

    private static void step(Admin admin, String[] words) throws Exception {
        String group = words[1];
        switch (words[0]) {
            case "earliest": {
                ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
                Collection<AlterConfigOp> change = List.of(new AlterConfigOp(
                    new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET));
                admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
                break;
            }
            case "join":  // group, topic
                MEMBERS.put(group, member(group, words[2]));
                MEMBERS.get(group).poll(Duration.ofMillis(500));
                break;
            case "take":  // group, at least so many records
                take(MEMBERS.get(group), Integer.parseInt(words[2]));
                break;
            case "try":  // whatever comes soon
                for (int i = 0; i < 4; i++) {
                    takeSome(MEMBERS.get(group));
                }
                break;
            case "leave":
                MEMBERS.remove(group).close();
                break;
            case "reset": {  // group, topic, offset of partition 0
                TopicPartition partition = new TopicPartition(words[2], 0);
                admin.alterShareGroupOffsets(group, Map.of(partition, Long.parseLong(words[3]))).all().get();
                break;
            }
            case "delete":
                admin.deleteShareGroups(List.of(group)).all().get();
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static KafkaShareConsumer<byte[], byte[]> member(String group, String topic) {
        KafkaShareConsumer<byte[], byte[]> member = new KafkaShareConsumer<>(Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", group,
            "share.acknowledgement.mode", "explicit",
            "max.poll.records", 20,
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class));
        member.subscribe(List.of(topic));
        return member;
    }

    private static void take(KafkaShareConsumer<byte[], byte[]> member, int wanted) {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        int taken = 0;
        while (taken < wanted) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("only " + taken + " records came");
            }
            taken += takeSome(member);
        }
    }

    private static int takeSome(KafkaShareConsumer<byte[], byte[]> member) {
        int taken = 0;
        for (ConsumerRecord<byte[], byte[]> record : member.poll(Duration.ofMillis(500))) {
            member.acknowledge(record, fate(record));
            taken++;
        }
        member.commitSync();
        return taken;
    }

    private static AcknowledgeType fate(ConsumerRecord<byte[], byte[]> record) {
        int deliveries = record.deliveryCount().orElse((short) 1);
        if (record.offset() % 7 == 3 && deliveries < 4) {
            return AcknowledgeType.RELEASE;
        }
        return record.offset() % 5 == 4 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
    }
}
