package brokers

import (
	"os"
	"testing"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
)

// TestMain ends the cluster that the tests share which neither kill nor cut theirs.
func TestMain(m *testing.M) { os.Exit(kafkatest.Main(m).Run()) }
