package metric

// noKafka and noRabbitMQ are when families of the clients are missing.
const (
	noKafka    = "without a sink or source of the kind `kafka`"
	noRabbitMQ = "without a sink or source of the kind `rabbitmq`"
)

var kafkaPart = NewPart("Kafka clients",
	"Connections and requests of sinks and sources of the kind `kafka`.")

var (
	kafkaClient  = Named("client", "`sink:` or `source:` and its name, or `relay`")
	kafkaRequest = OneOf("request", "produce fetch metadata group other")
)

var (
	KafkaRequestSeconds = kafkaPart.Histogram("sloengine_kafka_request_seconds",
		"Time from the sending of a request to the last byte of its answer. Fetches wait for data.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, kafkaClient,
		kafkaRequest, Absent(noKafka))
	KafkaRequestFailures = kafkaPart.Counter("sloengine_kafka_request_failures_total", "requests",
		"Requests without an answer. The client tries again.", kafkaClient, kafkaRequest, Absent(noKafka))
	KafkaThrottledSeconds = kafkaPart.Counter("sloengine_kafka_throttled_seconds_total", unitSeconds,
		"Time for which brokers asked the client to pause, because it exceeded a quota.", kafkaClient, Absent(noKafka))
	KafkaConnects = kafkaPart.Counter("sloengine_kafka_connects_total", unitTimes,
		"Attempts to connect to a broker, logins included.", kafkaClient, OneOf("result", "success failure"), Absent(noKafka))
	KafkaDisconnects = kafkaPart.Counter("sloengine_kafka_disconnects_total", unitTimes,
		"Connections to brokers that ended.", kafkaClient, Absent(noKafka))
	KafkaBufferedRecords = kafkaPart.Gauge("sloengine_kafka_buffered_records", "records",
		"Records that wait for the acknowledgement of the brokers.", kafkaClient, Absent(noKafka))
	KafkaBufferedBytes = kafkaPart.Gauge("sloengine_kafka_buffered_bytes", unitBytes, "Bytes of these records.",
		kafkaClient, Absent(noKafka))
)

var rabbitMQPart = NewPart("RabbitMQ clients",
	"Connections of sinks and sources of the kind `rabbitmq`.")

var rabbitMQClient = Named("client", "`sink:` or `source:` and its name, or `relay`")

var (
	RabbitMQConnected = rabbitMQPart.Gauge("sloengine_rabbitmq_connected", unitYesNo,
		"Connections of the client: 1, or 0 while it is not connected.", rabbitMQClient, Absent(noRabbitMQ))
	RabbitMQBlocked = rabbitMQPart.Gauge("sloengine_rabbitmq_blocked", unitYesNo,
		"1 while the broker takes no messages because it lacks memory or disk space.", rabbitMQClient, Absent(noRabbitMQ))
	RabbitMQConnects = rabbitMQPart.Counter("sloengine_rabbitmq_connects_total", unitTimes,
		"Attempts to connect, logins included.", rabbitMQClient, OneOf("result", "success failure"), Absent(noRabbitMQ))
	RabbitMQDisconnects = rabbitMQPart.Counter("sloengine_rabbitmq_disconnects_total", unitTimes,
		"Connections that ended.", rabbitMQClient, Absent(noRabbitMQ))
)
