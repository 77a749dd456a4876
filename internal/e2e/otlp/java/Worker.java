import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Writes records to a topic, reads them, and counts what it has read: BROKERS TOPIC RECORDS. */
class Worker {
    public static void main(String[] args) throws InterruptedException {
        String topic = args[1], text = "org.apache.kafka.common.serialization.String";
        int records = Integer.parseInt(args[2]);
        var done = new CompletableFuture<Void>();
        Shop.end(done::join);
        System.out.println("{\"port\": 0}");
        try (var producer = new KafkaProducer<String, String>(Map.of("bootstrap.servers", args[0],
                "key.serializer", text + "Serializer", "value.serializer", text + "Serializer"));
             var consumer = new KafkaConsumer<String, String>(Map.of("bootstrap.servers", args[0], "group.id", topic,
                "auto.offset.reset", "earliest", "max.poll.records", "20", "key.deserializer", text + "Deserializer",
                "value.deserializer", text + "Deserializer"))) {
            consumer.subscribe(List.of(topic));
            for (int i = 0; i < records; i++) {
                producer.send(new ProducerRecord<>(topic, "order " + i));
            }
            for (int read = 0; read < records; ) {
                long left = 60_000 - System.currentTimeMillis() % 60_000;
                Thread.sleep(left < 1000 ? left : 0); // no minute ends between a record and its span
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    Shop.count("process " + record.topic() + " 0");
                    read++;
                }
            }
        }
        done.complete(null);
        Thread.currentThread().join(); // until SIGTERM
    }
}
