package remote

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/retry"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"  no such\r\n\x1b[31mreceiver\x00 ": "no such   [31mreceiver",
		"evil\u202etxt":                      "evil txt",
		"broken \xff\xc3(":                   "broken (",
		strings.Repeat("é", 200):             strings.Repeat("é", 200),
		strings.Repeat("é", 201):             strings.Repeat("é", 200) + "...",
		strings.Repeat("🚨", 1<<20):           strings.Repeat("🚨", 200) + "...",
	} {
		require.Equal(t, want, Text(text))
	}
}

func TestStatusError(t *testing.T) {
	e := &StatusError{Status: 503, Class: retry.ClassTransient}
	require.EqualError(t, e, "503 Service Unavailable")
	e.Detail = "starting"
	require.EqualError(t, e, "503 Service Unavailable: starting")
	require.Equal(t, "503 Service Unavailable", e.Brief())
	require.Equal(t, retry.ClassTransient, retry.ClassOf(e))
	require.Equal(t, "599", Status(599))
}
