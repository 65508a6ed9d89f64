// Inflates zstd frames by the library that Kafka reads them with: hex from stdin, one frame a line; hex of the content or
// "refused".

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.HexFormat;

import com.github.luben.zstd.ZstdInputStreamNoFinalizer;

public class ZstdFrames {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            byte[] frame = HexFormat.of().parseHex(line);
            try (InputStream in = new ZstdInputStreamNoFinalizer(new ByteArrayInputStream(frame))) {
                System.out.println(HexFormat.of().formatHex(in.readAllBytes()));
            } catch (IOException error) {
                System.out.println("refused");
            }
        }
    }
}
