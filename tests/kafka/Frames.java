// Reads compressed frames as a consumer does: codec number and hex from stdin, one frame a line; the number of bytes of the
// content and its CRC-32, or "refused".

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.zip.CRC32;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.utils.internals.BufferSupplier;

public class Frames {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        byte[] piece = new byte[1 << 16];
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            ByteBuffer data = ByteBuffer.wrap(HexFormat.of().parseHex(words[1]));
            Compression codec = Compression.of(CompressionType.forId(Integer.parseInt(words[0]))).build();
            try (InputStream in = codec.wrapForInput(data, (byte) 2, BufferSupplier.NO_CACHING)) {
                CRC32 crc = new CRC32();
                long size = 0;
                int got;
                while ((got = in.read(piece)) >= 0) {
                    crc.update(piece, 0, got);
                    size += got;
                }
                System.out.println(size + " " + crc.getValue());
            } catch (Throwable error) {
                System.out.println("refused");
            }
        }
    }
}
