// Kafka's MemoryRecordsBuilder, the changes that a leader makes to batches, and MemoryRecords.filterTo,
// driven by lines from stdin. tests/record_scripts.py has the words and does the same with the engine.

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter.BatchRetention;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter.BatchRetentionResult;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;  // where most are from 4.4 on

public class Records {
    private static final HexFormat HEX = HexFormat.of();
    private static MemoryRecordsBuilder builder;
    private static ByteBuffer built = ByteBuffer.allocate(0);

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16));
        String line;
        while ((line = lines.readLine()) != null) {
            String said;
            try {
                said = run(line.split(" "));
            } catch (RuntimeException error) {
                said = "refused";
            }
            out.print(said + "\n");
        }
        out.flush();
    }

    private static String run(String[] w) throws Exception {
        switch (w[0]) {
            case "new":
                builder = null;
                built = ByteBuffer.allocate(0);
                return "";
            case "forget":
                built = ByteBuffer.allocate(0);
                return "";
            case "builder":
                builder = null;
                builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1 << 16), (byte) number(w[1]),
                    Compression.of(CompressionType.forId((int) number(w[2]))).build(), type(w[3]), number(w[4]),
                    number(w[5]), number(w[6]), (short) number(w[7]), (int) number(w[8]), w[9].equals("1"),
                    w[10].equals("1"), (int) number(w[11]), 1 << 16, number(w[12]));
                return "";
            case "append":
                builder.appendWithOffset(number(w[1]), number(w[2]), bytes(w[3]), bytes(w[4]), headers(w));
                return "";
            case "marker":
                builder.appendEndTxnMarker(number(w[1]),
                    new EndTransactionMarker(ControlRecordType.valueOf(w[2]), (int) number(w[3])));
                return "";
            case "leader":
                builder.appendLeaderChangeMessage(number(w[1]), new LeaderChangeMessage().setLeaderId((int) number(w[2]))
                    .setVoters(voters(w[3])).setGrantingVoters(voters(w[4])));
                return "";
            case "header":
                builder.appendSnapshotHeaderMessage(number(w[1]),
                    new SnapshotHeaderRecord().setLastContainedLogTimestamp(number(w[2])));
                return "";
            case "footer":
                builder.appendSnapshotFooterMessage(number(w[1]), new SnapshotFooterRecord());
                return "";
            case "version":
                builder.appendKRaftVersionMessage(number(w[1]),
                    new KRaftVersionRecord().setKRaftVersion((short) number(w[2])));
                return "";
            case "voters":
                builder.appendVotersMessage(number(w[1]), votersRecord(w));
                return "";
            case "last":
                builder.overrideLastOffset(number(w[1]));
                return "";
            case "producer":
                builder.reopenAndRewriteProducerState(number(w[1]), (short) number(w[2]), (int) number(w[3]), w[4].equals("1"));
                return "";
            case "room":
                return builder.estimatedSizeInBytes() + " " + builder.hasRoomFor(number(w[1]), bytes(w[2]), bytes(w[3]), headers(w));
            case "build":
                ByteBuffer more = builder.build().buffer();
                ByteBuffer both = ByteBuffer.allocate(built.capacity() + more.remaining());
                both.put(built.rewind()).put(more.duplicate()).flip();
                built = both;
                if (builder.numRecords() == 0)
                    return hex(more);
                MemoryRecordsBuilder.RecordsInfo info = builder.info();
                return hex(more) + " " + info.maxTimestamp + " " + info.shallowOffsetOfMaxTimestamp;
            case "move":
                for (MutableRecordBatch batch : records().batches())
                    batch.setLastOffset(batch.lastOffset() + number(w[1]));
                return hex(records().buffer());
            case "epoch":
                for (MutableRecordBatch batch : records().batches())
                    batch.setPartitionLeaderEpoch((int) number(w[1]));
                return hex(records().buffer());
            case "stamp":
                for (MutableRecordBatch batch : records().batches())
                    batch.setMaxTimestamp(type(w[1]), number(w[2]));
                return hex(records().buffer());
            case "filter":
                return filter(w);
            default:
                throw new IllegalStateException(w[0]);
        }
    }

    private static String filter(String[] w) {
        List<String> gone = Arrays.asList(w[5].split(","));
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(number(w[1]), number(w[2])) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                BatchRetention retention = batch.lastOffset() % 5 == 4 ? BatchRetention.DELETE : BatchRetention.valueOf(w[3]);
                return new BatchRetentionResult(retention, w[4].equals("1"));
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return !gone.contains(Long.toString(record.offset()));
            }
        };
        MemoryRecords.FilterResult result = records().filterTo(filter, ByteBuffer.allocate(1 << 23), BufferSupplier.NO_CACHING, Integer.MAX_VALUE);
        ByteBuffer output = result.outputBuffer();
        output.flip();
        built = ByteBuffer.allocate(output.remaining()).put(output).rewind();
        return hex(records().buffer()) + " " + result.messagesRead() + " " + result.bytesRead() + " " + result.messagesRetained() + " "
            + result.bytesRetained() + " " + result.maxOffset() + " " + result.maxTimestamp() + " "
            + result.shallowOffsetOfMaxTimestamp();
    }

    private static MemoryRecords records() {
        return MemoryRecords.readableRecords(built);
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes.length == 0 ? "-" : HEX.formatHex(bytes);
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }

    private static TimestampType type(String word) {
        return switch (word) {
            case "0" -> TimestampType.CREATE_TIME;
            case "1" -> TimestampType.LOG_APPEND_TIME;
            default -> TimestampType.NO_TIMESTAMP_TYPE;
        };
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : HEX.parseHex(word.substring(1));
    }

    private static Header[] headers(String[] w) {
        int first = w[0].equals("room") ? 4 : 5;
        Header[] made = new Header[(w.length - first) / 2];
        for (int i = 0; i < made.length; i++)
            made[i] = new RecordHeader(new String(bytes(w[first + 2 * i])), bytes(w[first + 1 + 2 * i]));
        return made;
    }

    private static List<LeaderChangeMessage.Voter> voters(String word) {
        if (word.equals("-"))
            return List.of();
        return Arrays.stream(word.split(",")).map(id -> new LeaderChangeMessage.Voter().setVoterId(Integer.parseInt(id))).toList();
    }

    private static VotersRecord votersRecord(String[] w) {
        VotersRecord made = new VotersRecord();
        for (int i = 2; i < w.length; i++) {
            String[] part = w[i].split(",");
            VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
            endpoints.add(new VotersRecord.Endpoint().setName(part[2]).setHost(part[3]).setPort(Integer.parseInt(part[4])));
            made.voters().add(new VotersRecord.Voter().setVoterId(Integer.parseInt(part[0]))
                .setVoterDirectoryId(Uuid.fromString(part[1])).setEndpoints(endpoints)
                .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                    .setMinSupportedVersion(Short.parseShort(part[5])).setMaxSupportedVersion(Short.parseShort(part[6]))));
        }
        return made;
    }
}
