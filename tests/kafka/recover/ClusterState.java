import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/** Fills a cluster with everything that metadata can hold, and describes it by Kafka's own admin client, a line a fact. */
public class ClusterState {
    static Admin admin(String bootstrap) {
        return Admin.create(Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", "30000"));
    }

    /** Runs commands, a line each with tabs between the words, and ends the answer of each with a line of its own. */
    public static void main(String[] none) throws Exception {
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String end = "done";
            try {
                run(line.split("\t"));
            } catch (Exception e) {
                e.printStackTrace(System.out);
                end = "failed";
            }
            System.out.println("\u0004" + end);
            System.out.flush();
        }
        System.exit(0);
    }

    static void run(String[] args) throws Exception {
        switch (args[0]) {
            case "fill": fill(args[1], Short.parseShort(args[2]), Integer.parseInt(args[3])); break;
            case "describe": describe(args[1]); break;
            case "nodes": nodes(args[1]); break;
            case "login": login(args[1], args[2], args[3], args[4]); break;
            case "spoil": spoil(args[1]); break;
            case "write": write(args[1], Integer.parseInt(args[2])); break;
            default: throw new IllegalArgumentException(args[0]);
        }
    }

    static void fill(String bootstrap, short replication, int records) throws Exception {
        try (Admin admin = admin(bootstrap)) {
            List<NewTopic> topics = new ArrayList<>();
            topics.add(new NewTopic("orders", 3, replication).configs(Map.of("min.insync.replicas", "" + Math.min(2, replication), "compression.type", "lz4")));
            topics.add(new NewTopic("compacted", 2, replication).configs(Map.of("cleanup.policy", "compact")));
            topics.add(new NewTopic("unclean", 2, replication).configs(Map.of("unclean.leader.election.enable", "true")));
            topics.add(new NewTopic("empty.topic_with-dashes-1", 1, replication));
            topics.add(new NewTopic("gone", 1, replication));
            topics.add(new NewTopic("recreated", 1, replication).configs(Map.of("retention.ms", "1000000")));
            admin.createTopics(topics).all().get();
            admin.deleteTopics(List.of("gone", "recreated")).all().get();
            Thread.sleep(1000);
            admin.createTopics(List.of(new NewTopic("recreated", 2, replication).configs(Map.of("retention.ms", "2000000")))).all().get();
            admin.createAcls(List.of(
                new AclBinding(new ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL), new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)),
                new AclBinding(new ResourcePattern(ResourceType.GROUP, "g-", PatternType.PREFIXED), new AccessControlEntry("User:bob", "10.0.0.1", AclOperation.ALL, AclPermissionType.DENY)),
                new AclBinding(new ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL), new AccessControlEntry("User:mallory", "*", AclOperation.CLUSTER_ACTION, AclPermissionType.DENY)),
                new AclBinding(new ResourcePattern(ResourceType.TRANSACTIONAL_ID, "tx", PatternType.PREFIXED), new AccessControlEntry("User:dora", "*", AclOperation.WRITE, AclPermissionType.ALLOW)))).all().get();
            admin.alterUserScramCredentials(List.of(
                new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192), "alice-secret"),
                new UserScramCredentialUpsertion("bob", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), "bob-secret"),
                new UserScramCredentialUpsertion("left", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), "x"))).all().get();
            admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("left", ScramMechanism.SCRAM_SHA_512))).all().get();
            Map<String, String> user = new HashMap<>();
            user.put("user", "alice");
            Map<String, String> all = new HashMap<>();
            all.put("user", null);
            Map<String, String> both = new HashMap<>();
            both.put("user", "bob");
            both.put("client-id", null);
            admin.alterClientQuotas(List.of(
                new ClientQuotaAlteration(new ClientQuotaEntity(user), List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1234567.0), new ClientQuotaAlteration.Op("request_percentage", 25.0))),
                new ClientQuotaAlteration(new ClientQuotaEntity(all), List.of(new ClientQuotaAlteration.Op("consumer_byte_rate", 9e9))),
                new ClientQuotaAlteration(new ClientQuotaEntity(both), List.of(new ClientQuotaAlteration.Op("controller_mutation_rate", 0.25))),
                new ClientQuotaAlteration(new ClientQuotaEntity(Map.of("ip", "10.1.2.3")), List.of(new ClientQuotaAlteration.Op("connection_creation_rate", 5.0))))).all().get();
            set(admin, ConfigResource.Type.BROKER, "", "log.cleaner.threads", "2");
            set(admin, ConfigResource.Type.BROKER, "1", "num.io.threads", "9");
            set(admin, ConfigResource.Type.CLIENT_METRICS, "metrics", "interval.ms", "60000");
            set(admin, ConfigResource.Type.GROUP, "g-share", "share.auto.offset.reset", "earliest");
        }
        write(bootstrap, records);
        try (Consumer<String, String> consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "group.id", "g-plain", "auto.offset.reset", "earliest", "enable.auto.commit", "false"), new StringDeserializer(), new StringDeserializer())) {
            Set<TopicPartition> all = new HashSet<>();
            for (int p = 0; p < 3; p++) all.add(new TopicPartition("orders", p));
            consumer.assign(all);
            long end = System.currentTimeMillis() + 20000;
            int seen = 0;
            while (seen < records && System.currentTimeMillis() < end) seen += consumer.poll(java.time.Duration.ofMillis(500)).count();
            consumer.commitSync();
        }
    }

    /** Deletes a topic, makes another anew, and changes what admins can change. */
    static void spoil(String bootstrap) throws Exception {
        try (Admin admin = admin(bootstrap)) {
            admin.deleteTopics(List.of("orders", "recreated")).all().get();
            Thread.sleep(1000);
            admin.createTopics(List.of(new NewTopic("recreated", 5, (short) 1), new NewTopic("later", 1, (short) 1))).all().get();
            admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get();
            admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256))).all().get();
            set(admin, ConfigResource.Type.TOPIC, "compacted", "max.compaction.lag.ms", "9000000");
            set(admin, ConfigResource.Type.GROUP, "g-share", "share.auto.offset.reset", "latest");
        }
    }

    static void nodes(String bootstrap) throws Exception {
        try (Admin admin = admin(bootstrap)) {
            System.out.println(ids(new ArrayList<>(admin.describeCluster().nodes().get())));
        }
    }

    static void login(String bootstrap, String mechanism, String user, String password) throws Exception {
        String module = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"" + user + "\" password=\"" + password + "\";";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", mechanism, "sasl.jaas.config", module))) {
            System.out.println("welcome " + admin.describeCluster().clusterId().get());
        } catch (java.util.concurrent.ExecutionException e) {
            System.out.println("refused " + e.getCause().getClass().getSimpleName());
        }
    }

    static void write(String bootstrap, int records) throws Exception {
        Map<String, Object> plain = Map.of("bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", "true");
        try (Producer<String, String> producer = new KafkaProducer<>(plain, new StringSerializer(), new StringSerializer())) {
            List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
            for (int at = 0; at < records; at++) sent.add(producer.send(new ProducerRecord<>("orders", at % 3, "k" + at, "v" + at)));
            for (int at = 0; at < records; at++) sent.add(producer.send(new ProducerRecord<>("compacted", at % 2, "k" + at % 7, "v" + at)));
            for (int at = 0; at < records; at++) sent.add(producer.send(new ProducerRecord<>("unclean", at % 2, "k" + at, "v" + at)));
            for (var each : sent) each.get(60, TimeUnit.SECONDS);
        }
        Map<String, Object> tx = new HashMap<>(plain);
        tx.put("transactional.id", "tx-" + System.nanoTime() % 1000000);
        try (Producer<String, String> producer = new KafkaProducer<>(tx, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int at = 0; at < 3; at++) {
                producer.beginTransaction();
                for (int p = 0; p < 2; p++) producer.send(new ProducerRecord<>("recreated", p, "t", "t" + at));
                if (at == 1) producer.abortTransaction(); else producer.commitTransaction();
            }
        }
        System.out.println("written");
    }

    static void set(Admin admin, ConfigResource.Type type, String name, String key, String value) throws Exception {
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), List.of(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)))).all().get();
    }

    static void describe(String bootstrap) throws Exception {
        SortedSet<String> lines = new TreeSet<>();
        try (Admin admin = admin(bootstrap)) {
            Set<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
            Set<TopicPartition> all = new HashSet<>();
            for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
                lines.add("topic\t" + topic.name() + "\t" + topic.topicId() + "\t" + topic.partitions().size());
                for (TopicPartitionInfo info : topic.partitions()) {
                    lines.add("leader\t" + topic.name() + "-" + info.partition() + "\t" + (info.leader() == null ? -1 : info.leader().id()) + "\t" + ids(info.replicas()) + "\t" + ids(info.isr()));
                    if (info.leader() != null && info.leader().id() >= 0) all.add(new TopicPartition(topic.name(), info.partition()));
                }
            }
            List<ConfigResource> resources = new ArrayList<>();
            for (ConfigResource each : admin.listConfigResources().all().get()) if (each.type() != ConfigResource.Type.BROKER_LOGGER) resources.add(each);
            resources.add(new ConfigResource(ConfigResource.Type.BROKER, ""));
            for (String name : names) resources.add(new ConfigResource(ConfigResource.Type.TOPIC, name));
            for (var each : admin.describeConfigs(new HashSet<>(resources)).all().get().entrySet())
                for (ConfigEntry entry : each.getValue().entries()) {
                    String source = entry.source().toString();
                    if (source.startsWith("DYNAMIC") && (each.getKey().type() == ConfigResource.Type.TOPIC ? source.contains("TOPIC") : true))
                        if (!(source.contains("DEFAULT_BROKER") && !each.getKey().name().isEmpty()))
                            lines.add("config\t" + each.getKey().type() + "\t" + each.getKey().name() + "\t" + entry.name() + "=" + entry.value());
                }
            for (AclBinding acl : admin.describeAcls(AclBindingFilter.ANY).values().get()) lines.add("acl\t" + acl);
            for (var user : admin.describeUserScramCredentials().all().get().values()) lines.add("user\t" + user);
            for (var quota : admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().entrySet()) lines.add("quota\t" + new TreeMap<>(nullable(quota.getKey().entries())) + "\t" + new TreeMap<>(quota.getValue()));
            FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
            for (var feature : features.finalizedFeatures().entrySet()) lines.add("feature\t" + feature.getKey() + "\t" + feature.getValue().maxVersionLevel());
            lines.add("cluster\t" + admin.describeCluster().clusterId().get());
            Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
            for (TopicPartition each : all) asked.put(each, OffsetSpec.latest());
            for (var end : admin.listOffsets(asked).all().get().entrySet()) lines.add("end\t" + end.getKey() + "\t" + end.getValue().offset());
            for (var offset : admin.listConsumerGroupOffsets("g-plain").partitionsToOffsetAndMetadata().get().entrySet()) lines.add("group\tg-plain\t" + offset.getKey() + "\t" + offset.getValue().offset());
            if (names.contains("orders")) count(bootstrap, lines);
        }
        for (String line : lines) System.out.println(line);
    }

    static void count(String bootstrap, SortedSet<String> lines) {
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed", "enable.auto.commit", "false"), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (String topic : List.of("orders", "compacted", "unclean", "recreated")) {
                Set<TopicPartition> all = new HashSet<>();
                for (PartitionInfo info : consumer.partitionsFor(topic)) all.add(new TopicPartition(topic, info.partition()));
                consumer.assign(all);
                consumer.seekToBeginning(all);
                var ends = consumer.endOffsets(all);
                long seen = 0, until = System.currentTimeMillis() + 20000;
                while (System.currentTimeMillis() < until && all.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) seen += consumer.poll(java.time.Duration.ofMillis(200)).count();
                lines.add("records\t" + topic + "\t" + (topic.equals("compacted") ? "" : seen));
            }
        }
    }

    static Map<String, String> nullable(Map<String, String> entries) {
        Map<String, String> found = new HashMap<>();
        entries.forEach((key, value) -> found.put(key, value == null ? "<default>" : value));
        return found;
    }

    static List<Integer> ids(List<Node> nodes) {
        List<Integer> found = new ArrayList<>();
        for (Node node : nodes) found.add(node.id());
        Collections.sort(found);
        return found;
    }
}
