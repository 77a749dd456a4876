package metric

// noSources is when families of the sources are missing.
const noSources = "without `sources` in engine.yaml"

var sourcePart = NewPart("Sources",
	"Events that the engine takes from message brokers.")

var (
	sourceName    = Named("source", "the `name` of the source")
	sourceTrouble = OneOf(
		"kind", "engine rate_limit dead_letters connection credentials tls topic position commit held_back")
)

var (
	SourceMessages = sourcePart.Counter("sloengine_source_messages_total", "messages",
		"Messages that were read from the broker.", sourceName, Absent(noSources))
	SourceBytes = sourcePart.Counter("sloengine_source_bytes_total", unitBytes,
		"Bytes of the values of these messages.", sourceName, Absent(noSources))
	SourceEmptyMessages = sourcePart.Counter("sloengine_source_empty_messages_total", "messages",
		"Messages without a value, such as tombstones, which hold no event.", sourceName, Absent(noSources))
	SourceEvents = sourcePart.Counter("sloengine_source_events_total", unitEvents,
		"Events in the messages by what became of them. Rejected messages and events are dead letters. Expired ones are "+
			"older than the longest window.", sourceName, OneOf("result", "accepted duplicate rejected expired sampled dropped"),
		Absent(noSources))
	SourceDeadLetters = sourcePart.Counter("sloengine_source_dead_letters_total", "dead letters",
		"Dead letters of messages and events that could not be taken.", sourceName,
		OneOf("reason", "unreadable rejected oversized rate_limited"), Absent(noSources))
	SourceDiscarded = sourcePart.Counter("sloengine_source_discarded_total", "dead letters",
		"Messages and events that could not be taken and that the dead-letter filter does not save.",
		sourceName, Absent(noSources))
	SourceCut = sourcePart.Counter("sloengine_source_cut_events_total", unitEvents,
		"Bad or good events by a counter that exceed all events of the same ten seconds, and do not count.", sourceName,
		Absent(noSources))
	SourceLeftOut = sourcePart.Counter("sloengine_source_left_out_samples_total", "samples",
		"Samples of remote write that add nothing, by why. `invalid` and `full` are refused.", sourceName, OneOf("reason",
			"baseline known decreased too_old stale replica histogram unneeded forbidden full invalid"),
		Absent("without a `prometheus` source with `receive`"))
	SourceTrouble = sourcePart.Gauge("sloengine_source_trouble", unitYesNo,
		"1 while the source fails in this way. With `engine`, `rate_limit` and `dead_letters` it is paused, and "+
			"messages wait in the broker.", sourceName, sourceTrouble, Absent(noSources))
	SourceFailures = sourcePart.Counter("sloengine_source_failures_total", unitTimes,
		"Failures of the source by kind.", sourceName, sourceTrouble, Absent(noSources))
	SourceBusySeconds = sourcePart.Counter("sloengine_source_busy_seconds_total", unitSeconds,
		"Time in which the source had messages at hand and did not wait for the broker, pauses included. Its rate is the "+
			"saturation: at 1 the source cannot read faster.", sourceName, Absent(noSources))
	SourcePausedSeconds = sourcePart.Counter("sloengine_source_paused_seconds_total", unitSeconds,
		"Time that batches of messages waited before the engine took them. Batches that wait at the same time add up.",
		sourceName, OneOf("kind", "engine rate_limit dead_letters"), Absent(noSources))
)

var kafkaSourcePart = NewPart("Kafka sources",
	"Sources that read topics of Kafka.")

const noKafkaSource = "without a Kafka source"

var (
	KafkaSourceLag = kafkaSourcePart.Gauge("sloengine_kafka_source_lag_messages", "messages",
		"Messages in the partition that this engine owns and has not stored yet. Beyond 500 partitions of a source, the "+
			"others add up to one series with the topic and partition `other`.", sourceName, Named("topic", "the topic"),
		Named("partition", "number of the partition"), Absent(noKafkaSource))
	KafkaSourceLost = kafkaSourcePart.Counter("sloengine_kafka_source_lost_messages_total", "messages",
		"Messages that retention deleted before they were read. They lower coverage.", sourceName, Absent(noKafkaSource))
	KafkaSourceCommits = kafkaSourcePart.Counter("sloengine_kafka_source_commits_total", "commits",
		"Commits to the broker. With static ownership they serve the monitoring of lag only.", sourceName,
		OneOf("result", "ok failed"), Absent(noKafkaSource))
	KafkaSourceSampledIDs = kafkaSourcePart.Counter("sloengine_kafka_source_sampled_ids_total", unitTimes,
		"Times that an id was seen, for one of 64 ids, and where the same id was seen before. `other_partition` says that "+
			"the key of the messages does not fix the partition of an id, so two engines may count an event twice.", sourceName,
		OneOf("result", "first same_partition other_partition"), Absent(noKafkaSource))
	KafkaSourceRebalances = kafkaSourcePart.Counter("sloengine_kafka_source_rebalances_total", unitTimes,
		"Times that the consumer group assigned or revoked partitions.", sourceName, Absent(noKafkaSource))
)

var outboxSourcePart = NewPart("Outbox sources",
	"Sources that read an outbox table of PostgreSQL.")

const noOutboxSource = "without an outbox source"

var (
	OutboxSourceBehind = outboxSourcePart.Gauge("sloengine_outbox_source_behind_rows", "rows",
		"Rows of the table that this engine reads and has not stored yet, up to 100000. Rows that an open transaction "+
			"holds back are included.", sourceName, Absent(noOutboxSource))
	OutboxSourceOldest = outboxSourcePart.Gauge("sloengine_outbox_source_oldest_seconds", unitSeconds,
		"Age of the first of these rows. 0 without any.", sourceName, Absent(noOutboxSource))
	OutboxSourceHeld = outboxSourcePart.Gauge("sloengine_outbox_source_held_back_rows", "rows",
		"Committed rows that the way `xid` does not read yet because a transaction that began before is still open, up to "+
			"100000. 0 in the way `claim`.", sourceName, Absent(noOutboxSource))
	OutboxSourceHeldSeconds = outboxSourcePart.Gauge("sloengine_outbox_source_held_back_seconds", unitSeconds,
		"Age of the first of the rows that are held back. 0 without any.", sourceName, Absent(noOutboxSource))
)
