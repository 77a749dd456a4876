package sink

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Main(rabbitmqtest.Main(m))) }
