package metric

var rabbitPart = NewPart("RabbitMQ queues",
	"Queues that sources consume, and the dead-letter handler. Depths and differences are measured while the broker "+
		"answers, and keep their last value meanwhile.")

var (
	rabbitSource = Named("source", "name of the source")
	rabbitQueue  = Named("queue", "name of the queue in the settings")
	noRabbit     = "without `rabbitmq` or `rabbitmq_dead_letters` under `sources` in engine.yaml"
	noHandler    = "without `rabbitmq_dead_letters` under `sources` in engine.yaml"
)

var (
	RabbitRedelivered = rabbitPart.Counter("sloengine_rabbitmq_redelivered_total", "messages",
		"Messages that the broker had delivered before, to this engine or another consumer.", rabbitSource, Absent(noRabbit))
	RabbitCancelled = rabbitPart.Counter("sloengine_rabbitmq_cancelled_total", unitTimes,
		"Times that the broker cancelled the consumer, for example because the queue was deleted.",
		rabbitSource, Absent(noRabbit))
	RabbitTopologyProblems = rabbitPart.Gauge("sloengine_rabbitmq_topology_problems", "differences",
		"Queues and exchanges that are missing or differ from the settings, by the last verification.",
		rabbitSource, Absent(noRabbit))
	RabbitQueueMessages = rabbitPart.Gauge("sloengine_rabbitmq_queue_messages", "messages",
		"Messages that are ready in the queue. Those that were delivered and not acknowledged are not included.",
		rabbitSource, rabbitQueue, Absent(noRabbit))
	RabbitQueueConsumers = rabbitPart.Gauge("sloengine_rabbitmq_queue_consumers", "consumers", "Consumers of the queue.",
		rabbitSource, rabbitQueue, Absent(noRabbit))

	RabbitDeadLetterDepth = rabbitPart.Gauge("sloengine_rabbitmq_dead_letter_depth", "messages",
		"Messages that are ready in the dead-letter queue or wait in the handler.", rabbitSource, Absent(noHandler))
	RabbitDeadLetterHandled = rabbitPart.Counter("sloengine_rabbitmq_dead_letters_handled_total", "messages",
		"Messages of the dead-letter queue that were handled and acknowledged, whatever their outcome.",
		rabbitSource, Absent(noHandler))
	RabbitDeadLetters = rabbitPart.Counter("sloengine_rabbitmq_dead_letters_total", "messages",
		"Messages of the dead-letter queue by outcome: counted as a failure event (failure), already counted by an event "+
			"with the same id (duplicate), returned to their queue (retried), or saved as a dead letter of the engine (kept).",
		rabbitSource, Named("queue", "queue in which the message died, or `other` if it is not among `work_queues`"),
		Named("type", "type of the event, or `other` if no spec knows it or beyond 200 types"),
		OneOf("reason", "expired rejected maxlen delivery_limit other"), OneOf("outcome", "failure duplicate retried kept"),
		Absent("until the first message"))
	RabbitDeadLetterAge = rabbitPart.Histogram("sloengine_rabbitmq_dead_letter_age_seconds",
		"Time from dead-lettering, which RabbitMQ states in whole seconds, until the message was handled.",
		[]float64{.1, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400}, rabbitSource, Absent(noHandler))
	RabbitDeadLettersOverdue = rabbitPart.Gauge("sloengine_rabbitmq_dead_letters_overdue_seconds", unitSeconds,
		"Time since the dead-letter queue should have received a message of the work queue, which has had messages and no "+
			"consumer for longer than its TTL and a minute. 0 while nothing is overdue, or while it cannot be known.",
		rabbitSource, Named("queue", "work queue with a TTL"), Absent("without `work_queues` with a `ttl` in engine.yaml"))
	RabbitRequeued = rabbitPart.Counter("sloengine_rabbitmq_requeued_total", "messages",
		"Messages of the dead-letter queue that were returned to it because the engine was busy.",
		rabbitSource, Absent(noHandler))
)
