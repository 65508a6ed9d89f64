// Kafka's command-line tools in one JVM: one JSON object a line on standard input, one JSON line back for each.
// Each names the "class" of a tool, its "arguments" and the text of its standard "input"; the answer has its "out",
// "err" and its exit "status".

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;  // where most are from 4.4 on

public class Tools {
    static final ObjectMapper JSON = new ObjectMapper();

    static class Ended extends RuntimeException {
        final int status;

        Ended(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
        }
    }

    // Some tools catch what ends them, and end again with another status.
    static Ended first;

    static void end(int status, String message) {
        if (message != null)
            System.err.println(message);
        if (first == null)
            first = new Ended(status);
        throw first;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        Runtime.getRuntime().halt(0);
    }

    static Map<String, Object> run(JsonNode command) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(command.get("input").asText().getBytes(StandardCharsets.UTF_8)));
        String[] arguments = JSON.convertValue(command.get("arguments"), String[].class);
        int status = 0;
        first = null;
        try {
            Class.forName(command.get("class").asText()).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            status = 1;
            if (!(error.getCause() instanceof Ended))
                error.getCause().printStackTrace();
        }
        if (first != null)
            status = first.status;
        System.out.flush();
        System.err.flush();
        return Map.of("out", out.toString(StandardCharsets.UTF_8), "err", err.toString(StandardCharsets.UTF_8),
            "status", status);
    }
}
