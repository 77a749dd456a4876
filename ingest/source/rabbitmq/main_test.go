package rabbitmq

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(rabbitmqtest.Main(m)) }

// dial connects to the node that the tests share.
func dial(t testing.TB) *amqp.Connection {
	t.Helper()
	c, err := amqp.Dial(rabbitmqtest.Shared(t).URL("/"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
