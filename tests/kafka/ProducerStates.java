// Kafka's ProducerStateManager, driven by lines from stdin; one line of answer for each.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.zip.CRC32;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

public class ProducerStates {
    private static ProducerStateManager manager;

    public static void main(String[] args) throws Exception {
        File folder = new File(args[0]);
        int transactionTimeout = Integer.parseInt(args[1]);
        ProducerStateManagerConfig config = new ProducerStateManagerConfig(Integer.parseInt(args[2]), false);
        TopicPartition partition = new TopicPartition("test", 0);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            if (words[0].equals("open")) {
                manager = new ProducerStateManager(partition, folder, transactionTimeout, config, Time.SYSTEM);
            }
            String said;
            try {
                said = run(words);
            } catch (RuntimeException error) {
                said = error.getClass().getSimpleName();
            }
            System.out.println(said + " | " + state(Long.parseLong(words[words.length - 1])));
        }
    }

    private static String run(String[] words) throws Exception {
        long[] n = new long[words.length];
        for (int i = 1; i < words.length; i++) {
            if (words[i].matches("-?[0-9]+")) {
                n[i] = Long.parseLong(words[i]);
            }
        }
        switch (words[0]) {
            case "open":
                return "-";
            case "data": {
                // origin, producer, epoch, first and last sequence, timestamp, first and last offset, transactional
                ProducerAppendInfo info = manager.prepareUpdate(n[2], AppendOrigin.valueOf(words[1]));
                info.appendDataBatch((short) n[3], (int) n[4], (int) n[5], n[6], new LogOffsetMetadata(n[7]), n[8], n[9] == 1);
                manager.update(info);
                manager.updateMapEndOffset(n[8] + 1);
                return "-";
            }
            case "marker": {
                // origin, producer, epoch, type, coordinator epoch, offset, timestamp, transaction version
                ProducerAppendInfo info = manager.prepareUpdate(n[2], AppendOrigin.valueOf(words[1]));
                EndTransactionMarker marker = new EndTransactionMarker(ControlRecordType.valueOf(words[4]), (int) n[5]);
                Optional<CompletedTxn> completed = info.appendEndTxnMarker(marker, (short) n[3], n[6], n[7], (short) n[8]);
                manager.update(info);
                String said = "-";
                if (completed.isPresent()) {
                    CompletedTxn txn = completed.get();
                    said = txn.firstOffset() + " " + txn.lastOffset() + " " + txn.isAborted() + " " + manager.lastStableOffset(txn);
                    manager.completeTxn(txn);
                }
                manager.updateMapEndOffset(n[6] + 1);
                return said;
            }
            case "watermark":
                manager.onHighWatermarkUpdated(n[1]);
                return "-";
            case "snapshot":
                Optional<File> taken = manager.takeSnapshot(false);
                return taken.isPresent() ? taken.get().getName() + " " + crc(taken.get()) : "-";
            case "expire":
                manager.removeExpiredProducers(n[1]);
                return "-";
            case "reload":
                manager.truncateAndReload(n[1], n[2], n[3]);
                return "-";
            case "fully":
                manager.truncateFullyAndStartAt(n[1]);
                return "-";
            case "before":
                manager.deleteSnapshotsBefore(n[1]);
                return "-";
            default:
                throw new IllegalStateException(words[0]);
        }
    }

    private static String state(long now) {
        StringBuilder said = new StringBuilder();
        said.append(manager.mapEndOffset());
        said.append(' ').append(number(manager.oldestSnapshotOffset())).append(' ').append(number(manager.latestSnapshotOffset()));
        said.append(' ').append(number(manager.firstUndecidedOffset()));
        said.append(' ').append(manager.firstUnstableOffset().map(each -> each.messageOffset).orElse(-1L));
        said.append(' ').append(manager.hasLateTransaction(now)).append(' ').append(manager.isEmpty());
        new TreeMap<>(manager.activeProducers()).forEach((id, entry) -> {
            said.append("; ").append(id).append(' ').append(entry.producerEpoch()).append(' ').append(entry.coordinatorEpoch());
            said.append(' ').append(entry.lastTimestamp()).append(' ').append(number(entry.currentTxnFirstOffset()));
            entry.batchMetadata().forEach(batch -> said.append(", ").append(batch.firstSeq()).append(' ').append(batch.lastSeq())
                .append(' ').append(batch.firstOffset()).append(' ').append(batch.lastOffset()).append(' ').append(batch.timestamp()));
        });
        return said.toString();
    }

    private static long crc(File file) throws Exception {
        CRC32 crc = new CRC32();
        crc.update(Files.readAllBytes(file.toPath()));
        return crc.getValue();
    }

    private static long number(OptionalLong value) {
        return value.orElse(-1);
    }
}
