
/** LogManager of Kafka 4.4, called as the Scala class of 4.3 was. */
class Managers {
    final org.apache.kafka.storage.internals.log.LogManager manager;

    Managers(org.apache.kafka.storage.internals.log.LogManager manager) {
        this.manager = manager;
    }

    static Managers of(File dir, LogConfig config, Time time) throws Exception {
        return new Managers(new org.apache.kafka.storage.internals.log.LogManager(
            List.of(dir), List.of(), resource -> new Properties(), config, new CleanerConfig(false), 1, 1000L, 1000L,
            1000L, 1000L, 900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new Now(),
            new BrokerTopicStats(false), new LogDirFailureChannel(10), time, false, 30_000L, null));
    }

    static Managers of(KafkaConfig config, MetaPropertiesEnsemble ensemble, Time time, LogDirFailureChannel channel) {
        return new Managers(kafka.log.LogManager.apply(
            config, ensemble.errorLogDirs(), resource -> new Properties(), new Now(), time,
            new BrokerTopicStats(false), channel));
    }

    UnifiedLog load(
            File folder, boolean clean, Map<TopicPartition, Long> recoveryPoints, Map<TopicPartition, Long> logStarts,
            LogConfig config) throws Exception {
        return manager.loadLog(
            folder, clean, recoveryPoints, logStarts, config, Map.of(), new ConcurrentHashMap<>(), ignored -> false);
    }

    void start(TopicsImage topics, int node) throws Exception {
        manager.startup(
            topics.topicsByName().keySet(),
            log -> log.topicId().isEmpty() || org.apache.kafka.storage.internals.log.LogManager.isStrayReplica(
                topics.partitionReplicas(log.topicId().get(), log.topicPartition().partition()), node, log));
        manager.recoverAbandonedFutureLogs(node, (topic, partition, broker) -> {
            PartitionRegistration found = topics.getPartition(topic, partition);
            return found == null ? null : found.directory(broker);
        });
    }

    Iterable<File> liveDirs() {
        return manager.liveLogDirs();
    }

    boolean isOnline(Uuid directory) {
        return manager.onlineLogDirId(directory);
    }

    boolean hasOffline() {
        return manager.hasOfflineLogDirs();
    }

    boolean has(TopicPartition partition) {
        return manager.getLog(partition, false).isPresent();
    }

    /** The log as ReplicaManager asks for it. */
    UnifiedLog getOrCreate(TopicPartition partition, Uuid topic, Uuid directory) throws Exception {
        return manager.getOrCreateLog(partition, true, false, Optional.of(topic), Optional.of(directory));
    }

    Iterable<UnifiedLog> logs() {
        return manager.allLogs();
    }

    Iterable<FileLock> locks() {
        return manager.dirLocks();
    }

    void fail(String dir) {
        manager.handleLogDirFailure(dir);
    }

    static void close(UnifiedLog log) {
        log.closeQuietly();
    }
}
