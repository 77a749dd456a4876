package spec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

func TestFixDuration(t *testing.T) {
	for in, want := range map[string]string{
		"30 days": "30d", "5min": "5m", "1.5h": "1h30m", "2 Hours": "2h", "500 milliseconds": "500ms", "0.5s": "500ms",
		"1M": "1m", "soon": "", "": "", "5x": "",
	} {
		require.Equal(t, want, fixDuration(in), in)
	}
}

// scalar reads a document of one value.
func scalar(text string) *yamldoc.Value { return new(yamldoc.Reader).Document("f", []byte(text)) }
