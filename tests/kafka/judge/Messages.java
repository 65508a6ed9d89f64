// Kafka's generated messages and the parsers of its dump tool: one JSON object a line on standard input, one
// JSON line back for each. Bytes are base64. Commands, by the field "command":
//   read  a message of "class" and "version" from "bytes": "json" as its converter writes it, "bytes" as it
//         writes itself again, null where it refuses to, "left" bytes behind it; or "failed", the exception's message
//   dump  what the dump tool's "parser" makes of a record's "key" and "value": "key" and "payload"

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;

public class Messages {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, Object> PARSERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Object answer;
            try {
                JsonNode command = JSON.readTree(line);
                answer = command.get("command").asText().equals("read") ? read(command) : dump(command);
            } catch (Throwable error) {
                answer = Map.of("error", error.getClass().getSimpleName(), "message", String.valueOf(error));
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    static Object read(JsonNode command) throws Exception {
        Class<?> kind = Class.forName(command.get("class").asText());
        short version = (short) command.get("version").asInt();
        ByteBuffer buffer = ByteBuffer.wrap(bytes(command.get("bytes")));
        Message message = (Message) kind.getConstructor().newInstance();
        Map<String, Object> answer = new HashMap<>();
        try {
            message.read(new ByteBufferAccessor(buffer), version);
        } catch (RuntimeException error) {
            answer.put("failed", error.getMessage());
            return answer;
        }
        answer.put("left", buffer.remaining());
        Method write = Class.forName(kind.getName() + "JsonConverter").getMethod("write", kind, short.class);
        answer.put("json", write.invoke(null, message, version).toString());
        try {
            ByteBuffer again = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] raw = new byte[again.remaining()];
            again.get(raw);
            answer.put("bytes", Base64.getEncoder().encodeToString(raw));
        } catch (RuntimeException error) {
            answer.put("bytes", null);
        }
        return answer;
    }

    static Object parser(String name) throws Exception {
        Object known = PARSERS.get(name);
        if (known == null) {
            Constructor<?> made = Class.forName("org.apache.kafka.tools.DumpLogSegments$" + name).getDeclaredConstructor();
            made.setAccessible(true);
            known = made.newInstance();
            PARSERS.put(name, known);
        }
        return known;
    }

    static Object dump(JsonNode command) throws Exception {
        Object parser = parser(command.get("parser").asText());
        SimpleRecord simple = new SimpleRecord(0L, bytes(command.get("key")), bytes(command.get("value")));
        Record record = MemoryRecords.withRecords(Compression.NONE, simple).records().iterator().next();
        Method parse = parser.getClass().getMethod("parse", Record.class);
        parse.setAccessible(true);
        Object result = parse.invoke(parser, record);
        Map<String, Object> answer = new HashMap<>();
        answer.put("key", field(result, "key"));
        answer.put("payload", field(result, "value"));
        return answer;
    }

    static Object field(Object result, String name) throws Exception {
        java.lang.reflect.Field field = result.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return ((Optional<?>) field.get(result)).orElse(null);
    }
}
