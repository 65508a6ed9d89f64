
/** LogManager of Kafka 4.3, a Scala class. */
class Managers {
    final kafka.log.LogManager manager;

    Managers(kafka.log.LogManager manager) {
        this.manager = manager;
    }

    static Managers of(File dir, LogConfig config, Time time) throws Exception {
        return new Managers(new kafka.log.LogManager(
            CollectionConverters.asScala(List.of(dir)).toSeq(), CollectionConverters.asScala(List.<File>of()).toSeq(),
            resource -> new Properties(), config, new CleanerConfig(false), 1, 1000L, 1000L, 1000L, 1000L,
            900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new Now(), new BrokerTopicStats(false),
            new LogDirFailureChannel(10), time, false, 30_000L, null));
    }

    static Managers of(KafkaConfig config, MetaPropertiesEnsemble ensemble, Time time, LogDirFailureChannel channel) {
        return new Managers(kafka.log.LogManager.apply(
            config, CollectionConverters.asScala(ensemble.errorLogDirs()).toSeq(), resource -> new Properties(),
            new Now(), time, new BrokerTopicStats(false), channel));
    }

    UnifiedLog load(
            File folder, boolean clean, Map<TopicPartition, Long> recoveryPoints, Map<TopicPartition, Long> logStarts,
            LogConfig config) throws Exception {
        return manager.loadLog(
            folder, clean, recoveryPoints, logStarts, config, scala.collection.immutable.Map$.MODULE$.empty(),
            new ConcurrentHashMap<>(), ignored -> false);
    }

    void start(TopicsImage topics, int node) throws Exception {
        manager.startup(
            CollectionConverters.asScala(topics.topicsByName().keySet()).toSet(),
            log -> log.topicId().isEmpty() || org.apache.kafka.storage.internals.log.LogManager.isStrayReplica(
                topics.partitionReplicas(log.topicId().get(), log.topicPartition().partition()), node, log));
        manager.recoverAbandonedFutureLogs(node, topics);
    }

    Iterable<File> liveDirs() {
        return CollectionConverters.asJava(manager.liveLogDirs());
    }

    boolean isOnline(Uuid directory) {
        return manager.onlineLogDirId(directory);
    }

    boolean hasOffline() {
        return manager.hasOfflineLogDirs();
    }

    boolean has(TopicPartition partition) {
        return manager.getLog(partition, false).isDefined();
    }

    /** The log as ReplicaManager asks for it. */
    UnifiedLog getOrCreate(TopicPartition partition, Uuid topic, Uuid directory) throws Exception {
        return manager.getOrCreateLog(partition, true, false, Optional.of(topic), scala.Option.apply(directory));
    }

    Iterable<UnifiedLog> logs() {
        return CollectionConverters.asJava(manager.allLogs());
    }

    Iterable<FileLock> locks() {
        return CollectionConverters.asJava(manager.dirLocks());
    }

    void fail(String dir) {
        manager.handleLogDirFailure(dir);
    }

    static void close(UnifiedLog log) {
        log.closeHandlers();
    }
}
