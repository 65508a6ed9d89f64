import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.tools.DumpLogSegments;

/** Runs Kafka's DumpLogSegments once for each line of arguments, which tabs part. */
public class DumpPeer {
    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = System.out;
        PrintStream complaints = System.err;
        String line;
        while ((line = in.readLine()) != null) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            String thrown = "";
            System.setOut(new PrintStream(out, false, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, false, StandardCharsets.UTF_8));
            try {
                DumpLogSegments.main(line.split("\t"));
            } catch (Throwable error) {
                thrown = error.toString();
            } finally {
                System.out.flush();
                System.err.flush();
                System.setOut(answers);
                System.setErr(complaints);
            }
            answers.println(text(out.toByteArray()) + "," + text(err.toByteArray()) + ","
                + text(thrown.getBytes(StandardCharsets.UTF_8)));
            answers.flush();
        }
    }

    private static String text(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
