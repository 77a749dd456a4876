package jsonescape_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/jsonescape"
)

func TestLengthOfAnEscape(t *testing.T) {
	for text, want := range map[string]int{`\"`: 2, `\\x`: 2, `\/`: 2, `\n`: 2, `\u00e9`: 6, `\uD83Dx`: 6, `\`: 0, `\x`: 0,
		`\u00e`: 0, `\u00eg`: 0, ``: 0} {
		require.Equal(t, want, jsonescape.Length([]byte(text)), text)
	}
}

func TestEscapesAreResolved(t *testing.T) {
	for text, want := range map[string]string{
		`a\"\\\/\b\f\n\r\tz`:   "a\"\\/\b\f\n\r\tz",
		`\u00e9\u00E9é`:        "ééé",
		`\ud83d\ude00`:         "\U0001F600",
		`\ufffd`:               "\uFFFD",
		`\ud83d`:               "?",
		`\ude00\ud83d`:         "??",
		`\ud83d\ud83d\ude00`:   "?\U0001F600",
		`\ud83d\n`:             "?\n",
		`\ud83dxude00`:         "?xude00",
		`\ud83d` + `\\` + `de`: `?\de`,
	} {
		out, ok := jsonescape.Append([]byte(">"), []byte(text), "?")
		require.Equal(t, ">"+want, string(out), text)
		require.Equal(t, want[0] != '?', ok, text)
	}
}
