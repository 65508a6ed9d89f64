// Kafka's share coordinator, given records by lines from stdin: a key and a value in hexadecimal, "-" for null.
// In the end it prints its state, a line for each share partition.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;  // where most are from 4.4 on
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.ShareGroupOffset;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.server.share.SharePartitionKey;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.timeline.SnapshotRegistry;

public class ShareStates {
    private static final ShareCoordinatorMetrics METRICS = new ShareCoordinatorMetrics(new Metrics());

    public static void main(String[] args) throws Exception {
        ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        ShareCoordinatorShard shard = shard();
        long offset = 0;
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            shard.replay(offset++, -1L, (short) -1, serde.deserialize(bytes(words[0]), bytes(words[1])));
        }
        System.out.print(state(shard));
    }

    private static ShareCoordinatorShard shard() {
        AbstractConfig config = new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, Map.of(), false);
        return new ShareCoordinatorShard.Builder(new ShareCoordinatorConfig(config))
            .withSnapshotRegistry(new SnapshotRegistry(new LogContext()))
            .withCoordinatorMetrics(METRICS)
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .withTime(Time.SYSTEM)
            .build();
    }

    private static ByteBuffer bytes(String text) {
        return text.equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(text));
    }

    @SuppressWarnings("unchecked")
    private static String state(ShareCoordinatorShard shard) throws Exception {
        Field field = ShareCoordinatorShard.class.getDeclaredField("shareStateMap");
        field.setAccessible(true);
        StringBuilder shown = new StringBuilder();
        for (Map.Entry<SharePartitionKey, ShareGroupOffset> each :
                ((Map<SharePartitionKey, ShareGroupOffset>) field.get(shard)).entrySet()) {
            shown.append(row(each.getKey(), each.getValue())).append('\n');
        }
        return shown.toString();
    }

    private static String row(SharePartitionKey key, ShareGroupOffset state) {
        StringBuilder row = new StringBuilder();
        row.append(key.groupId()).append(' ').append(key.topicId()).append(' ').append(key.partition());
        row.append(' ').append(state.startOffset()).append(' ').append(state.deliveryCompleteCount());
        row.append(' ').append(state.stateEpoch()).append(' ').append(state.leaderEpoch());
        row.append(' ').append(state.snapshotEpoch());
        row.append(' ').append(state.createTimestamp()).append(' ').append(state.writeTimestamp());
        for (PersisterStateBatch batch : state.stateBatches()) {
            row.append(' ').append(batch.firstOffset()).append(',').append(batch.lastOffset());
            row.append(',').append(batch.deliveryState()).append(',').append(batch.deliveryCount());
        }
        return row.toString();
    }
}
