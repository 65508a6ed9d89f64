import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer that stays open: it sends one record, prints what came of it, and waits. */
public class RefusedProducer {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("enable.idempotence", "true");
        settings.put("acks", "all");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        boolean isTransactional = args[1].equals("transactional");
        if (isTransactional) {
            settings.put("transactional.id", "refused");
        }
        try (Producer<String, String> producer = new KafkaProducer<>(settings)) {
            try {
                if (isTransactional) {
                    producer.initTransactions();
                }
                producer.send(new ProducerRecord<>("orders", 0, "key", "value")).get();
                System.out.println("sent");
            } catch (Exception error) {
                System.out.println(error);
            }
            System.out.flush();
            Thread.sleep(Long.parseLong(args[2]) * 1000);
        }
    }
}
